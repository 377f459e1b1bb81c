// Package image serves discovery images over HTTP. It serves the paths of the Assisted Installer's
// image service, which hosts, management controllers and scripts expect, and shorter paths for
// booting machines.
//
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso         the image; minimal.iso likewise
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso.sha256  its digest, as by sha256sum
//	GET /i/{code}.iso                                          the image for virtual media
//
// routes.go lists all paths, including those for network boot. The version and the architecture in
// a path are for people only; the infra-env alone selects the image.
//
// An image never changes, so a download ends with the revision with which it began. A management
// controller reads an image in ranges without naming a revision, and must never receive a mixture
// of two. Its requests therefore keep their revision while it continues to read (readers.go). Such
// a request reads the base ISO, but neither the database nor other files.
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
	// Image returns the current image of an infra-env, with URLs in the network that the request
	// came from. The kind "" selects the kind of the infra-env.
	Image(ctx context.Context, infraEnvID string, kind discovery.Kind,
		network discovery.Network) (*discovery.Image, error)
	// BootFile returns a Kernel, RootFS or InsFile for an OpenShift version and an architecture.
	BootFile(ctx context.Context, version, arch string, kind discovery.Kind) (*discovery.Image, error)
	// ResolveCode returns the infra-env of the code in a short URL, and the time when the code
	// expires (zero: never).
	ResolveCode(ctx context.Context, code string) (infraEnvID string, expires time.Time, err error)
	// Script returns the script for a boot loader.
	Script(ctx context.Context, request discovery.ScriptRequest) ([]byte, error)
	// Ready returns nil if images can be downloaded.
	Ready() error
	// CheckBase checks the base ISO of an image that could not be read.
	CheckBase(failed *discovery.Image)
	// Registrations returns the times of the last registrations of an infra-env's hosts.
	Registrations(infraEnvID string) ([]time.Time, error)
}

// Tokens verifies the tokens in image URLs. Package agents implements it.
type Tokens interface {
	// VerifyImage returns the infra-env of a token, or an error for an invalid token.
	VerifyImage(token string) (infraEnvID string, err error)
}

// download is an image with the headers of its responses.
type download struct {
	*discovery.Image

	once       sync.Once
	headers    http.Header              // of every response
	reprDigest atomic.Pointer[[]string] // value of the header; nil until the digest is known
}

// describe sets the headers that describe the image (Repr-Digest: RFC 9530, section 3). It creates
// them once, because readers of virtual media send hundreds of requests a second.
func (i *download) describe(header http.Header, compute bool) {
	i.once.Do(func() {
		i.headers = http.Header{
			"Etag":                {i.ETag()},
			"Content-Type":        {"application/octet-stream"},
			"Content-Disposition": {mime.FormatMediaType("attachment", map[string]string{"filename": i.FileName})},
			// The image contains the pull secret.
			"Cache-Control": {"no-store"},
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
