package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/web/operation"
	"landfall/web/problem"
)

// contentSecurityPolicy permits the page to send requests to its own origin only, and no inline
// scripts and styles. web/ui/src/uilib/monacoStyles.ts says how the code editor gets its styles.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; worker-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// permissionsPolicy denies the features of browsers that the page does not use. Passkeys need
// publickey-credentials-get and -create, which are permitted by default.
const permissionsPolicy = "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), " +
	"usb=(), serial=(), hid=()"

// hashedName matches the file names that Vite generates. They contain a hash of the content, so
// such a file never changes.
var hashedName = regexp.MustCompile(`-[0-9A-Za-z_-]{8}\.[0-9a-z.]+$`)

// PageOperations returns the routes of the browser application. ui has index.html at its root. The
// application serves every path that no other operation serves.
func PageOperations(ui fs.FS) ([]operation.Operation, error) {
	p, err := newPage(ui)
	if err != nil {
		return nil, err
	}
	return []operation.Operation{
		{Method: http.MethodGet, Path: "/api/*", Access: operation.Public(), Handler: noOperation},
		{ID: "getPage", Method: http.MethodGet, Path: "/*", Head: true, Access: operation.Public(),
			Handler: p.serve, FromCopy: true,
			Summary: "Download a file of the browser application",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{404}},
	}, nil
}

func noOperation(c echo.Context) error {
	return problem.NotFound("GET %s is not an operation of the appliance's APIs; check the path and the method",
		c.Request().URL.Path)
}

// page serves the files of the browser application. For paths that the application routes itself,
// it serves index.html. It reads a file for each request, because reading all files at the start
// would load several megabytes of the binary into memory.
type page struct {
	ui    fs.FS
	files map[string]*file
}

// file is one file with its compressed forms.
type file struct {
	contentType string
	immutable   bool
	forms       []form // the smallest first; the last form is uncompressed
}

type form struct {
	name     string // name of the file with this form
	encoding string // as in Accept-Encoding; "" means none
	packed   bool   // the file is compressed with gzip and must be decompressed
	etag     string
}

// encodings lists the suffixes of compressed forms, the most preferred first.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

func newPage(ui fs.FS) (*page, error) {
	files := map[string]*file{}
	err := fs.WalkDir(ui, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path.Base(name), ".") || compressedForm(ui, name) {
			return err
		}
		if plain, ok := packedOnly(name); ok {
			files[plain], err = readFile(ui, plain)
			return err
		}
		files[name], err = readFile(ui, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the browser application: %w", err)
	}
	return &page{ui: ui, files: files}, nil
}

// compressedForm reports whether a file is a form of another one, which is uncompressed or, beside
// .br, exists as .gz only.
func compressedForm(ui fs.FS, name string) bool {
	for _, encoding := range encodings {
		plain, ok := strings.CutSuffix(name, encoding.suffix)
		if !ok {
			continue
		}
		if _, err := fs.Stat(ui, plain); err == nil {
			return true
		}
		_, err := fs.Stat(ui, plain+".gz")
		return err == nil && encoding.suffix != ".gz"
	}
	return false
}

// packedOnly returns the uncompressed name of a file that exists in compressed form only; the build
// compresses the larger files in that way. A name without another extension before .gz is a
// separate file.
func packedOnly(name string) (plain string, ok bool) {
	plain, ok = strings.CutSuffix(name, ".gz")
	return plain, ok && path.Ext(plain) != ""
}

func readFile(ui fs.FS, name string) (*file, error) {
	contentType := mime.TypeByExtension(path.Ext(name))
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	immutable := hashedName.MatchString(name)
	var forms []form
	for _, encoding := range encodings {
		if _, err := fs.Stat(ui, name+encoding.suffix); err != nil {
			continue
		}
		tag, err := tagOf(ui, name+encoding.suffix, immutable)
		if err != nil {
			return nil, err
		}
		forms = append(forms, form{name: name + encoding.suffix, encoding: encoding.name, etag: tag})
	}
	plain, err := uncompressedForm(ui, name, immutable)
	if err != nil {
		return nil, err
	}
	return &file{contentType: contentType, immutable: immutable, forms: append(forms, plain)}, nil
}

// uncompressedForm returns the form of a file for clients that accept no compression.
func uncompressedForm(ui fs.FS, name string, immutable bool) (form, error) {
	if _, err := fs.Stat(ui, name); errors.Is(err, fs.ErrNotExist) {
		tag, err := tagOf(ui, name+".gz", immutable)
		if err != nil {
			return form{}, err
		}
		return form{name: name + ".gz", packed: true, etag: `"plain-` + tag[1:]}, nil
	}
	tag, err := tagOf(ui, name, immutable)
	return form{name: name, etag: tag}, err
}

// tagOf returns the entity tag of a file: its name if the name changes with the content, otherwise
// a digest.
func tagOf(ui fs.FS, name string, immutable bool) (string, error) {
	if immutable {
		return `"` + path.Base(name) + `"`, nil
	}
	content, err := fs.ReadFile(ui, name)
	digest := sha256.Sum256(content)
	return `"` + hex.EncodeToString(digest[:16]) + `"`, err
}

// perVersion are the files of images by OpenShift version and architecture.
const perVersion = "VERSION/ARCHITECTURE/FILE with one of the files full.iso, minimal.iso, kernel, initrd.img, " +
	"rootfs.img, initrd.addrsize and ins-file"

// bootFiles are the files that machines request, by the first element of their paths. A wrong path
// must not get the page, which a boot loader would take for the file.
var bootFiles = map[string]string{
	"byid":     "/byid/INFRA-ENV/" + perVersion,
	"byapikey": "/byapikey/TOKEN/" + perVersion,
	"bytoken":  "/bytoken/TOKEN/" + perVersion,
	"images": "/images/INFRA-ENV, /images/INFRA-ENV/pxe-initrd or " +
		"/images/INFRA-ENV/s390x-initrd-addrsize",
	"boot-artifacts": "/boot-artifacts/kernel, /boot-artifacts/rootfs or /boot-artifacts/ins-file",
	"i":              "/i/CODE.iso, /i/CODE.ipxe, /i/CODE/grub.cfg or /i/CODE/config.iso",
	"ipxe":           "/ipxe/INFRA-ENV",
	"grub":           "/grub/INFRA-ENV/grub.cfg",
	"config":         "/config/INFRA-ENV.iso",
}

func (p *page) serve(c echo.Context) error {
	name := strings.TrimPrefix(c.Request().URL.Path, "/")
	if root, _, _ := strings.Cut(name, "/"); root == "api" || root == "apis" {
		return problem.NotFound("GET /%s is an operation of the Kubernetes API, which the configuration disables; set "+
			"kubernetes.enabled to true", name)
	} else if files := bootFiles[root]; files != "" {
		return problem.NotFound("the appliance has no file /%s; expected %s", name, files)
	}
	wanted, ok := p.files[name]
	if !ok {
		if path.Ext(name) != "" && !strings.HasPrefix(name, "assisted-installer/") {
			return problem.NotFound("the browser application has no file %s; reload the page", name)
		}
		if wanted, ok = p.files["index.html"]; !ok {
			return problem.NotFound("this appliance was built without its browser application (make build includes " +
				"the application); the API is at /api/assisted-install/v2")
		}
	}
	return wanted.serve(c, p.ui)
}

func (f *file) serve(c echo.Context, ui fs.FS) (err error) {
	chosen := f.choose(c.Request().Header.Get("Accept-Encoding"))
	content, err := ui.Open(chosen.name)
	if err != nil {
		return fmt.Errorf("read the browser application: %w", err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	seeker, ok := content.(io.ReadSeeker)
	if !ok {
		return fmt.Errorf("read the browser application: %s does not support seeking", chosen.name)
	}
	if chosen.packed {
		if seeker, err = unpack(seeker); err != nil {
			return fmt.Errorf("read the browser application: unpack %s: %w", chosen.name, err)
		}
	}
	header := c.Response().Header()
	header.Set("Content-Type", f.contentType)
	header.Set("ETag", chosen.etag)
	header.Set("Vary", "Accept-Encoding")
	header.Set("Cache-Control", "no-cache")
	if f.immutable {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Permissions-Policy", permissionsPolicy)
	if chosen.encoding != "" {
		header.Set("Content-Encoding", chosen.encoding)
	}
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, seeker)
	return nil
}

func unpack(packed io.Reader) (io.ReadSeeker, error) {
	reader, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(reader)
	return bytes.NewReader(plain), err
}

// choose returns the best form that the client accepts. It ignores quality values except zero,
// which excludes an encoding.
func (f *file) choose(accepted string) form {
	for _, candidate := range f.forms[:len(f.forms)-1] {
		for offered := range strings.SplitSeq(accepted, ",") {
			name, quality, _ := strings.Cut(strings.TrimSpace(offered), ";")
			refused := strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(quality), "q="), "0.") == "" &&
				quality != ""
			if strings.TrimSpace(name) == candidate.encoding && !refused {
				return candidate
			}
		}
	}
	return f.forms[len(f.forms)-1]
}
