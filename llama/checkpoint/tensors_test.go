package checkpoint

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"agentd/llama/checkpoint/checkpointtest"
)

// TestHeadersThatDescribeNoFileAreRefused: as in the library, tensors follow each other without gaps.
func TestHeadersThatDescribeNoFileAreRefused(t *testing.T) {
	const a, b = `"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}`, `"b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}`
	for name, tc := range map[string]struct {
		header string
		data   int
		want   string
	}{
		"two tensors":                        {`{` + a + `, ` + b + `}`, 8, ""},
		"in another order, and a note":       {`{"__metadata__": {"format": "pt"}, ` + b + `, ` + a + `}`, 8, ""},
		"tensors that overlap":               {`{` + a + `, "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}}`, 8, "ends at 4, and the next one begins at 2"},
		"the same bytes twice":               {`{` + a + `, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}`, 4, "ends at 4, and the next one begins at 0"},
		"a gap":                              {`{` + b + `}`, 8, "ends at 0, and the next one begins at 4"},
		"bytes that belong to none":          {`{` + a + `}`, 8, "4 bytes after the last tensor"},
		"a negative offset":                  {`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}`, 4, "not one of safetensors"},
		"an end before the begin":            {`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}`, 4, "it has -4 bytes"},
		"a member that nobody knows":         {`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "scale": 2}}`, 4, "scale is not known"},
		"more than the file has":             {`{` + a + `, ` + b + `}`, 4, "cut off"},
		"more bytes than its shape and type": {`{"a": {"dtype": "F16", "shape": [1], "data_offsets": [0, 4]}}`, 4, "it has 4 bytes for [1] of F16"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(tc.header))), tc.header...)
			if err := os.WriteFile(filepath.Join(dir, singleFile), append(file, make([]byte, tc.data)...), 0o600); err != nil {
				t.Fatal(err)
			}
			list, err := openTensors(dir)
			if expect(t, err, tc.want); err == nil {
				list.close()
			}
		})
	}
}

// TestOneFileCountsBeforeAnIndex that a save in shards left there, as in transformers.
func TestOneFileCountsBeforeAnIndex(t *testing.T) {
	dir := t.TempDir()
	checkpointtest.WriteTensors(t, filepath.Join(dir, singleFile), map[string][]int64{"a": {2}}, func(string) string { return "F32" })
	checkpointtest.Write(t, dir, map[string]any{indexFile: `{"metadata": {}, "weight_map": {"b": "model-00001-of-00002.safetensors"}}`})
	list, err := openTensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer list.close()
	if len(list.byName) != 1 || list.byName["a"] == nil {
		t.Errorf("%v", list.byName)
	}
	if err := os.Remove(filepath.Join(dir, singleFile)); err != nil {
		t.Fatal(err)
	}
	_, err = openTensors(dir)
	expect(t, err, "model-00001-of-00002.safetensors")
}
