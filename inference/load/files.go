package load

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"agentd/llama/checkpoint"
)

// part matches the first of several files into which llama.cpp splits a model.
var part = regexp.MustCompile(`^(.*)-00001-of-(\d{5})\.gguf$`)

// Files returns the paths of the files of the model or adapter at path.
func Files(path string) []string {
	if checkpoint.IsDirectory(path) || checkpoint.IsAdapterDirectory(path) {
		return checkpoint.Files(path)
	}
	paths := []string{path}
	if m := part.FindStringSubmatch(path); m != nil {
		count, _ := strconv.Atoi(m[2]) // five digits
		for i := 2; i <= count; i++ {
			paths = append(paths, fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i, m[2]))
		}
	}
	return paths
}

// Watch returns the total bytes of files, and a function that returns an error if one has changed since.
func Watch(paths ...string) (bytes int64, unchanged func() error, err error) {
	infos := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		if infos[i], err = os.Stat(path); err != nil {
			return 0, nil, err
		}
		bytes += infos[i].Size()
	}
	return bytes, func() error {
		for i, path := range paths {
			before := infos[i]
			after, err := os.Stat(path)
			if err != nil {
				return err
			}
			if !os.SameFile(before, after) || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
				return fmt.Errorf("%s changed while it was read; write it under another name and rename it", path)
			}
		}
		return nil
	}, nil
}
