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

	"landfall/isogen"
)

// Kind says what is downloaded.
type Kind string

// What an infra-env has. Kernel, RootFS and InsFile depend on its base ISO alone.
const (
	Full           Kind = "full"    // boots without fetching anything else
	Minimal        Kind = "minimal" // fetches its rootfs
	Config         Kind = "config"  // has only the config
	Initrd         Kind = "initrd"  // with the config, for network boot
	InitrdAddrSize Kind = "initrd.addrsize"
	Kernel         Kind = "kernel"
	RootFS         Kind = "rootfs"
	InsFile        Kind = "ins-file"
)

// Source makes images. An error that is a *problem.Error is told as it is: 404 for an infra-env
// that does not exist, 409 or 503 while there is no image.
type Source interface {
	// Image returns an infra-env's image as the infra-env is now, with links for the network that
	// is asked from.
	Image(ctx context.Context, infraEnvID string, kind Kind, network Network) (*Image, error)
	// Artifact returns a Kernel, RootFS or InsFile for an OpenShift version and an architecture.
	Artifact(ctx context.Context, version, arch string, kind Kind) (*Image, error)
	// Code returns the infra-env of a short code, and until when the code is valid (zero: without
	// end).
	Code(ctx context.Context, code string) (infraEnvID string, until time.Time, err error)
	// Script returns a boot loader's script.
	Script(ctx context.Context, script Script) ([]byte, error)
	// Ready returns nil if images can be downloaded.
	Ready() error
	// Failed hears of an image whose base can't be read any more.
	Failed(image *Image, err error)
}

// Image is an image with what a download tells of it. It never changes.
type Image struct {
	*isogen.Image
	InfraEnvID string // "" for an artifact
	Kind       Kind
	FileName   string
	Modified   time.Time // when its recipe last changed
	// Digest returns the SHA-256 in hex, or "" while it is not known yet. compute has it computed
	// in the background then.
	Digest func(compute bool) string

	once       sync.Once
	headers    http.Header              // that every answer has
	reprDigest atomic.Pointer[[]string] // the header's value once the digest is known
}

// describe sets the headers that say what is sent (Repr-Digest: RFC 9530, section 3). They are made
// once: readers of virtual media send hundreds of requests a second.
func (i *Image) describe(header http.Header, compute bool) {
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

func (i *Image) digestHeader(compute bool) []string {
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

// Script is what a boot loader asks for.
type Script struct {
	InfraEnvID string
	Format     ScriptFormat
	// ipxe_script_type of the request: "discovery-image-always", "boot-order-control" or "" for the
	// appliance's choice
	Type    string
	MAC     string // of the asking machine, on its second request
	Network Network
	URL     string // that the script was asked for under, without query; for one that leads back to itself
}

// ScriptFormat is a boot loader's language.
type ScriptFormat string

// The boot loaders.
const (
	IPXE ScriptFormat = "ipxe"
	GRUB ScriptFormat = "grub"
)
