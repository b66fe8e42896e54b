"""Privacy-guided trees: scikit-learn's tree where nothing is sensitive, and limits that hold where something is."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from shoal import PrivacyTreeClassifier, PrivacyTreeRegressor


@parametrize_with_checks([PrivacyTreeClassifier(), PrivacyTreeRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
