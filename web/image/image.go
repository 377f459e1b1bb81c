// Package image serves discovery images over HTTP: under the paths of the Assisted Installer's
// image service, which hosts, management controllers and scripts expect, and under shorter paths
// from which machines boot.
//
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso         the image; minimal.iso likewise
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso.sha256  its digest, as by sha256sum
//	GET /i/{code}.iso                                          the image for virtual media
//
// routes.go lists all of them, including the files for network boot. Version and architecture are
// in the paths for people only; the infra-env alone selects the image.
//
// An image never changes, so a download that began with one revision ends with it. An answer keeps
// its image until it is sent. A client that reads in ranges keeps the revision with which it began
// as long as it continues to read (readers.go): a management controller, which names no revision,
// must never get a mixture of two. A range request of a known reader reads the base ISO, but
// neither the database nor other files.
//
// Design: docs/design.md#images-as-lists-of-extents.
package image

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"landfall/appliance/discovery"
)

// Source makes images. Package discovery implements it.
type Source interface {
	// Image returns the present image of an infra-env, with URLs of the network that the request
	// came from. The kind "" is the infra-env's own.
	Image(ctx context.Context, infraEnvID string, kind discovery.Kind,
		network discovery.Network) (*discovery.Image, error)
	// BootFile returns a Kernel, RootFS or InsFile for an OpenShift version and an architecture.
	BootFile(ctx context.Context, version, arch string, kind discovery.Kind) (*discovery.Image, error)
	// ResolveCode returns the infra-env of the code in a short URL, and when the code expires
	// (zero: never).
	ResolveCode(ctx context.Context, code string) (infraEnvID string, expires time.Time, err error)
	// Script returns the script for a boot loader.
	Script(ctx context.Context, request discovery.ScriptRequest) ([]byte, error)
	// Ready returns nil if images can be downloaded.
	Ready() error
	// CheckBase checks the base ISO of an image that could not be read.
	CheckBase(failed *discovery.Image)
	// Registrations returns when the hosts of an infra-env last registered.
	Registrations(infraEnvID string) ([]time.Time, error)
}

// download is an image with the headers of its answers.
type download struct {
	*discovery.Image

	once       sync.Once
	headers    http.Header              // of every answer
	reprDigest atomic.Pointer[[]string] // the header's value, once the digest is known
}

// describe sets the headers that describe the image (Repr-Digest: RFC 9530, section 3). It makes
// them once, because readers of virtual media send hundreds of requests a second.
func (i *download) describe(header http.Header, compute bool) {
	i.once.Do(func() {
		i.headers = http.Header{
			"Etag":                {i.ETag()},
			"Content-Type":        {"application/octet-stream"},
			"Content-Disposition": {mime.FormatMediaType("attachment", map[string]string{"filename": i.FileName})},
			// The image contains the pull secret, so shared caches must not store it.
			"Cache-Control": {"private, no-cache"},
		}
	})
	maps.Copy(header, i.headers)
	if value := i.digestHeader(compute); value != nil {
		header["Repr-Digest"] = value
	}
}

func (i *download) digestHeader(compute bool) []string {
	if value := i.reprDigest.Load(); value != nil {
		return *value
	}
	if i.Digest == nil {
		return nil
	}
	sum, err := hex.DecodeString(i.Digest(compute))
	if err != nil || len(sum) == 0 {
		return nil
	}
	value := []string{"sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"}
	i.reprDigest.Store(&value)
	return value
}
