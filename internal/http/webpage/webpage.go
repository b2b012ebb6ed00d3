// Package webpage serves the files of a web page from memory, with the files that all pages of agentd share:
// base.css and icon.svg.
package webpage

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"agentd/internal/http/transfer"
)

// contentTypes has the media types of the files that are served, by extension.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Policy is the Content-Security-Policy of a page that loads only its own files.
const Policy = "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'"

//go:embed shared
var shared embed.FS

// Page has the files of a page.
type Page struct{ files map[string]pageFile }

type pageFile struct {
	kind, tag string
	body      []byte
	gzipped   func() []byte // made at the first call
}

// New reads the files of a page in a folder, which must have an index.html.
func New(files fs.FS, folder string) (*Page, error) {
	p := &Page{files: map[string]pageFile{}}
	if err := errors.Join(p.read(shared, "shared"), p.read(files, folder)); err != nil {
		return nil, err
	}
	if p.files[indexFile].body == nil {
		return nil, errors.New("the page has no " + indexFile)
	}
	return p, nil
}

func (p *Page) read(files fs.FS, folder string) error {
	sub, err := fs.Sub(files, folder)
	if err != nil {
		return err
	}
	return fs.WalkDir(sub, ".", func(name string, entry fs.DirEntry, err error) error {
		kind := contentTypes[path.Ext(name)]
		if err != nil || entry.IsDir() || kind == "" {
			return err
		}
		body, err := fs.ReadFile(sub, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		p.files[name] = pageFile{kind: kind, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body,
			gzipped: sync.OnceValue(func() []byte {
				var b bytes.Buffer
				z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a known level
				_, _ = z.Write(body)                                  // to a buffer, which takes all
				_ = z.Close()
				return b.Bytes()
			})}
		return nil
	})
}

const indexFile = "index.html"

// Index sends index.html.
func (p *Page) Index(g *gin.Context) { p.serve(g, indexFile) }

// Asset answers with the file that the parameter path names.
func (p *Page) Asset(g *gin.Context) { p.serve(g, strings.TrimPrefix(g.Param("path"), "/")) }

// serve sends a file. Browsers revalidate it each time, so that after an upgrade no page runs
// with older scripts.
func (p *Page) serve(g *gin.Context, name string) {
	file, ok := p.files[name]
	if !ok {
		_ = transfer.SendError(g, &transfer.ErrorAnswer{Status: http.StatusNotFound, Detail: "no such file"})
		return
	}
	h := g.Writer.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", file.tag)
	h.Add("Vary", "Accept-Encoding")
	if g.GetHeader("If-None-Match") == file.tag {
		g.Status(http.StatusNotModified)
		return
	}
	body := file.body
	if transfer.AcceptsGzip(g.GetHeader("Accept-Encoding")) && len(file.gzipped()) < len(body) {
		body = file.gzipped()
		h.Set("Content-Encoding", "gzip")
	}
	g.Data(http.StatusOK, file.kind, body)
}
