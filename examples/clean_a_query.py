"""Ask somebody's predictor about people without telling it more than it needs, and see what it could still find out."""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shoal import clean
from shoal.datasets import make_census

FEATURES = ["age", "hours-per-week", "capital-gain"]


def main() -> None:
    people = make_census(4000).frame
    train, queries = people[:3000], people[3000:]
    predictor = make_pipeline(StandardScaler(), LogisticRegression())
    predictor.fit(train.select(FEATURES), train["income"].to_numpy())
    for epsilon in (0.0, 0.05):
        cleaning = clean(queries, predictor, epsilon, rows=train, secret="hours-per-week", learners=["linear"])
        (left,) = cleaning.relearned["hours-per-week"]
        print(f"epsilon {epsilon}: {cleaning.moved.same_answers:.1%} of the answers are the same;")
        print(f"  who learns again knows {left.advantage:.0%} of the hours that people work.")


if __name__ == "__main__":
    main()
