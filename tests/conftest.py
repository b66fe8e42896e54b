"""Settings for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from promises import EXAMPLES

# The first example of a property may have to wait for a compiler; no deadline can tell that from a slow kernel.
# What is promised of every release is tried five times as often: see tests/promises.py.
settings.register_profile(
    "shoal",
    max_examples=EXAMPLES // 5 + 1,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("shoal")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of Spark go to one worker, which has one session for all; others go wherever there is nothing to do."""
    from xdist.scheduler import LoadScopeScheduling

    class OneForSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "spark" if "test_spark.py" in nodeid else nodeid

    return OneForSpark(config, log)


@pytest.fixture(scope="session")
def data_folder():
    """The folder with the papers' data sets."""
    folder = os.environ.get("SHOAL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SHOAL_DATA names no folder with the real data sets")
    return Path(folder)
