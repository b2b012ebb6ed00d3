package server

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCodeHasStatusDetailAndDocument: a row in the table of errors, and its status in the
// reference.
func TestEveryCodeHasStatusDetailAndDocument(t *testing.T) {
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, errorsOfPage, _ := strings.Cut(string(page), "\n## 3. Errors\n")
	count := len(regexp.MustCompile(`(?m)^\t(Code\w+)( Code = iota)?$`).FindAll(source, -1))
	if count < 20 {
		t.Fatalf("%d codes were found", count)
	}
	for code := range Code(count) {
		row := codes[code]
		if row.status < 400 || row.detail == "" {
			t.Errorf("code %d has no row with a status and a detail: %+v", code, row)
		}
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\| ([0-9, ]+, )?%d\b|^A \*\*%d\*\*`, row.status, row.status)).MatchString(errorsOfPage) {
			t.Errorf("docs/protocol.md does not explain status %d", row.status)
		}
	}
}
