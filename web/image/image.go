// Package image is the HTTP side of discovery images: downloads under the paths that the Assisted
// Installer's image service has, so that hosts, management controllers and people's scripts find
// them where they look, and the shorter ones that machines boot from.
//
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso         the image, whole or in ranges; minimal.iso likewise
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso.sha256  its digest, as sha256sum prints it
//	GET /i/{code}.iso                                          the same for virtual media: short, no query, revocable
//
// and what boots over the network; routes.go lists all of them. Version and architecture are in a
// path for people: the infra-env alone decides what is sent.
//
// An image is frozen, so a download that began with one revision ends with it. One answer holds its
// image for as long as it is sent. A client that reads in ranges keeps the revision it began with
// for as long as it goes on reading (readers.go): a management controller, which names no revision,
// must never get a mixture of two. Ranges of a reader that is known ask nobody and touch neither
// the database nor the disk but for the base ISO.
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
	// ResolveCode returns the infra-env of the code in a short URL, and when the code expires (zero:
	// never).
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
	reprDigest atomic.Pointer[[]string] // the header's value once the digest is known
}

// describe sets the headers that say what is sent (Repr-Digest: RFC 9530, section 3). They are made
// once: readers of virtual media send hundreds of requests a second.
func (i *download) describe(header http.Header, compute bool) {
	i.once.Do(func() {
		i.headers = http.Header{
			"Etag":                {i.ETag()},
			"Content-Type":        {"application/octet-stream"},
			"Content-Disposition": {mime.FormatMediaType("attachment", map[string]string{"filename": i.FileName})},
			// The image holds the pull secret: it is nobody's to keep but the client's.
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
