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
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, errorsOfPage, _ := strings.Cut(string(page), "\n## 3. Errors\n")
	if len(codes) < 20 {
		t.Fatalf("%d codes were found", len(codes))
	}
	for _, row := range codes {
		if row.status < 400 || row.detail == "" {
			t.Errorf("a code has no status and detail: %+v", *row)
		}
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\| ([0-9, ]+, )?%d\b|^A \*\*%d\*\*`, row.status, row.status)).MatchString(errorsOfPage) {
			t.Errorf("docs/protocol.md does not explain status %d", row.status)
		}
	}
}
