"""The recipe in the documentation works as it is written."""

import re
from pathlib import Path

from cameraready.claims import Run

RECIPE = Path(__file__).parents[1] / "docs" / "adding-a-system.md"


def test_the_recipe_for_a_system(tmp_path, capsys):
    verbs, experiment, _ = re.findall(r"```python\n(.*?)```", RECIPE.read_text(), re.DOTALL)
    system: dict = {"__name__": "my_system"}
    exec(experiment, system)
    with Run("my_system", "smoke", parts=tmp_path) as run:
        claims = list(system["experiment"](run))
    assert [claim.key for claim in claims] == ["mean-is-positive"]
    file = tmp_path / "file.txt"
    file.write_text("a\nb\n")
    exec(verbs, system)
    assert system["app"](["count", str(file)], result_action="return_value") == 0
    assert capsys.readouterr().out == "2\n"
