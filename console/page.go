package console

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"agentd/internal/transfer"

	"github.com/gin-gonic/gin"
)

// contentTypes are the types of the page's files. Other files are not served, and the
// machine's own table of types is not used.
var contentTypes = map[string]string{
	".html":  "text/html; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".svg":   "image/svg+xml",
	".png":   "image/png",
	".woff2": "font/woff2",
}

// page holds the files of the web page in memory.
type page struct{ files map[string]pageFile }

type pageFile struct {
	kind, tag string
	body      []byte
	gzipped   []byte
}

func newPage(files fs.FS) (*page, error) {
	p := &page{files: map[string]pageFile{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		kind := contentTypes[path.Ext(name)]
		if err != nil || entry.IsDir() || kind == "" {
			return err
		}
		body, err := fs.ReadFile(files, name)
		sum := sha256.Sum256(body)
		p.files[name] = pageFile{kind: kind, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body, gzipped: transfer.Compress(body)}
		return err
	})
	if err == nil && p.files[indexFile].body == nil {
		err = errors.New("the page has no " + indexFile)
	}
	return p, err
}

const indexFile = "index.html"

func (p *page) index(g *gin.Context) { p.serve(g, indexFile) }

func (p *page) asset(g *gin.Context) { p.serve(g, strings.TrimPrefix(g.Param("path"), "/")) }

// serve sends a file. Browsers revalidate it each time, so that after an upgrade no page runs
// with older scripts.
func (p *page) serve(g *gin.Context, name string) {
	file, ok := p.files[name]
	if !ok {
		g.String(http.StatusNotFound, "no such file")
		return
	}
	h := g.Writer.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", file.tag)
	h.Set("Vary", "Accept-Encoding")
	if g.GetHeader("If-None-Match") == file.tag {
		g.Status(http.StatusNotModified)
		return
	}
	body := file.body
	if transfer.AcceptsGzip(g.GetHeader("Accept-Encoding")) && len(file.gzipped) < len(body) {
		body = file.gzipped
		h.Set("Content-Encoding", "gzip")
	}
	g.Data(http.StatusOK, file.kind, body)
}
