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
