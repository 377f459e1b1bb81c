package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/mirror"
)

// TagMachineOSImages is the payload image with the live ISO, coreos/coreos-<arch>.iso, and its
// digest in a file with the suffix .sha256. Payloads before 4.10 do not contain this image.
// Payloads of OpenShift 5 also contain an ISO of RHEL 10, coreos/coreos10-<arch>.iso, which takes
// precedence.
const TagMachineOSImages = "machine-os-images"

// maxSumFile limits the size of the digest file in bytes.
const maxSumFile = 4 << 10

// LiveISO writes the payload's live ISO to the writer that begin returns; it calls begin with the
// size in bytes. It returns the digest (hex) of the ISO in the payload, or "". The layer is
// streamed from the registry and not stored. If the connection breaks, range requests resume the
// stream. If the layer does not match its digest, LiveISO returns an error after it has written the
// whole ISO.
//
// Errors: *MissingImageError, *DigestError, those of the registry, and those of begin and its
// writer.
func (l *Library) LiveISO(ctx context.Context, p *Payload, secret authn.Keychain,
	begin func(size int64) (io.Writer, error)) (sum string, err error) {
	spec, err := p.Component(TagMachineOSImages)
	if err != nil {
		return "", err
	}
	desc, served, err := l.mirror.Get(ctx, spec, secret)
	if err != nil {
		return "", err
	}
	img, err := imageFor(spec, desc, p.Architecture)
	if err != nil {
		return "", err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return "", fmt.Errorf("read image %q of the release: %w", TagMachineOSImages, err)
	}
	client, err := blobClient(ctx, served, l.mirror.Transport(served), secret)
	if err != nil {
		return "", mirror.Failed(served.Ref.Name(), served, err, secret)
	}
	names := isoNames(p)
	for _, name := range names {
		x := &isoExtraction{name: name, begin: begin}
		for _, layer := range slices.Backward(manifest.Layers) {
			d := &blobDownload{client: client, served: served, secret: secret, blob: layer}
			stream := &blobStream{ctx: ctx, download: d, clock: l.clock, library: l, sum: sha256.New()}
			err := scanLayer(stream, x.visit)
			if err = errors.Join(err, stream.close()); err != nil {
				return "", fmt.Errorf("read the live ISO of release %s: %w", p.Version, err)
			}
			if x.found {
				l.log.Info("Live ISO read from a release.", "version", p.Version, "architecture", p.Architecture,
					"file", name, "from", served.Ref.Name())
				return x.sum, nil
			}
		}
	}
	return "", fmt.Errorf("%s has no %s; the release %s has no live ISO for %s", served.Ref.Name(),
		strings.Join(names, " and no "), p.Version, p.Architecture)
}

// isoNames returns the names of a payload's live ISO in the order of preference.
func isoNames(p *Payload) []string {
	name := "coreos/coreos-" + p.Architecture + ".iso"
	if major, _, err := majorMinor(p.Version); err == nil && major >= 5 {
		return []string{"coreos/coreos10-" + p.Architecture + ".iso", name}
	}
	return []string{name}
}

// isoExtraction extracts the ISO and its digest file from one layer.
type isoExtraction struct {
	name  string
	begin func(size int64) (io.Writer, error)
	found bool
	sum   string
}

func (x *isoExtraction) visit(e entry) error {
	switch {
	case e.name == x.name && e.regular():
		w, err := x.begin(e.header.Size)
		if err != nil {
			return err
		}
		x.found = true
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, e.content, make([]byte, copyBuffer))
		return err
	case e.name == x.name+".sha256" && e.regular():
		text, err := io.ReadAll(io.LimitReader(e.content, maxSumFile))
		if err != nil {
			return err
		}
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			x.sum = fields[0]
		}
	}
	return nil
}

// blobStream reads a blob from a registry and requests the rest if the connection breaks. It
// reports the end only if the bytes match the blob's digest.
type blobStream struct {
	ctx      context.Context
	download *blobDownload
	clock    clockwork.Clock
	library  *Library
	sum      hash.Hash

	have      int64
	fruitless int // consecutive attempts without data
	body      io.ReadCloser
	cancel    context.CancelCauseFunc // cancels the request whose body is read
	attempt   context.Context
	stall     clockwork.Timer
}

// Read implements io.Reader.
func (s *blobStream) Read(p []byte) (int, error) {
	for s.have < s.download.blob.Size {
		n, err := s.read(p)
		if n > 0 {
			s.fruitless = 0
			return n, nil
		}
		if err := errors.Join(s.close(), s.again(err)); err != nil {
			return 0, err
		}
	}
	if got := hex.EncodeToString(s.sum.Sum(nil)); got != s.download.blob.Digest.Hex {
		return 0, &DigestError{Blob: s.download.blob.Digest.String(), From: s.download.served.Ref.Name(),
			Got: "sha256:" + got}
	}
	return 0, io.EOF
}

// read reads from the current connection, or from a new one.
func (s *blobStream) read(p []byte) (int, error) {
	if s.body == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.download.blob.Size-s.have)])
	s.sum.Write(p[:n])
	s.have += int64(n)
	s.stall.Reset(stallLimit)
	if n == 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *blobStream) open() error {
	s.attempt, s.cancel = context.WithCancelCause(s.ctx)
	cancel := s.cancel
	s.stall = s.clock.AfterFunc(stallLimit, func() { cancel(errStalled) })
	response, err := s.download.request(s.attempt, s.have)
	if err != nil {
		return err
	}
	s.body = response.Body
	if response.StatusCode == http.StatusOK && s.have > 0 {
		// The registry does not support ranges: skip the part that was read before.
		if _, err := io.CopyN(skipper{s.stall}, s.body, s.have); err != nil {
			return err
		}
	}
	return nil
}

// again returns nil if the request may be retried, after a delay. Otherwise, it returns the error.
func (s *blobStream) again(err error) error {
	if s.attempt != nil && errors.Is(context.Cause(s.attempt), errStalled) {
		err = errStalled
	}
	refused := new(refusedError)
	s.fruitless++
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case errors.As(err, &refused), s.fruitless == maxAttemptsWithoutData:
		return mirror.Failed(s.download.served.Ref.Name(), s.download.served, err, s.download.secret)
	}
	return s.library.pause(s.ctx, time.Duration(s.fruitless)*time.Second)
}

// close closes the current connection.
func (s *blobStream) close() error {
	if s.cancel == nil {
		return nil
	}
	s.stall.Stop()
	var err error
	if s.body != nil {
		err = s.body.Close()
		s.body = nil
	}
	if s.attempt.Err() == nil {
		s.cancel(nil)
	}
	s.cancel = nil
	return err
}
