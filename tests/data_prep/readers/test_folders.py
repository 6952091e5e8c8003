from data_prep.readers import folders


def test_each_folder_is_read_once_and_those_inside_keep_their_names(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside / "a", inside / "b/deep", outside):
        folder.mkdir(parents=True)
        (folder / "x.txt").touch()
    # Links that sort before their folders, a circle, one to elsewhere, and one that leads nowhere.
    (inside / "a/0").symlink_to(inside / "b")
    (inside / "b/1").symlink_to(inside)
    (inside / "0").symlink_to(outside)
    (inside / "1").symlink_to(outside)
    (inside / "gone").symlink_to(tmp_path / "nowhere")
    found = [path.removeprefix(f"{inside}/") for path in folders.files_in(inside)]
    assert sorted(found[:-1]) == ["a/x.txt", "b/deep/x.txt", "gone"]
    assert found[-1] == "0/x.txt"


def test_hidden_files_and_folders_may_be_passed_over(tmp_path):
    for name in ("a/x.txt", ".h/y.txt", "a/.z.txt", ".w.txt"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).touch()
    # A link to a folder that is hidden by its own name alone.
    (tmp_path / "in/b").symlink_to(".h")
    for top, hidden, expected in (
        ("in", False, ["in/a/x.txt", "in/b/y.txt"]),
        ("in/.h", False, ["in/.h/y.txt"]),
        ("in", True, ["in/.h/y.txt", "in/.w.txt", "in/a/.z.txt", "in/a/x.txt"]),
    ):
        found = folders.files_in(tmp_path / top, hidden)
        assert sorted(found) == [str(tmp_path / name) for name in expected], (top, hidden)
