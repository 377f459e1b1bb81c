package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"landfall/ignition"
	"landfall/isogen"
)

// mediaBlock is the number of bytes of an image that are downloaded per request. The structures
// that lead to the embed area are small and close together. mediaBlocks is the number of cached
// blocks.
const (
	mediaBlock  = 64 << 10
	mediaBlocks = 16
)

// media is the content of the booted discovery image.
type media struct {
	config *ignition.Discovered
	etag   string
}

// insert finds the discovery image, downloads it and reads the config in its embed area. The first
// host of a group that uses an image downloads all of it and checks its digest. Other hosts
// download only the ranges that lead to the config.
func (h *host) insert(ctx context.Context) (*media, error) {
	h.mu.Lock()
	disc := h.disc
	h.mu.Unlock()
	if disc != nil {
		return disc, nil
	}
	for {
		found, err := h.readMedia(ctx)
		if statusOf(err) != http.StatusPreconditionFailed {
			return found, err
		}
		// The infra-env changed during the download, so the URL now refers to another image.
		if err := h.group.rest(ctx, installerBackoff().delay()); err != nil {
			return nil, err
		}
	}
}

func (h *host) readMedia(ctx context.Context) (*media, error) {
	group := h.group
	operator := newOperator(group.base, group.Token, group.transport)
	var address string
	err := group.retry(ctx, func() (err error) {
		address, err = operator.imageURL(ctx, h.ref.infraEnv)
		return err
	})
	if err != nil {
		return nil, err
	}
	image, err := group.openImage(ctx, operator, address)
	if err != nil {
		return nil, err
	}
	if group.firstRead(image.etag) {
		if err := image.download(ctx); err != nil {
			return nil, err
		}
	}
	payload, err := isogen.Embedded(image, image.size)
	if err != nil {
		return nil, fmt.Errorf("the discovery image %s: %w", address, err)
	}
	config, err := ignition.ReadDiscovery(payload.Ignition)
	if err != nil {
		return nil, fmt.Errorf("the discovery image %s: %w", address, err)
	}
	return &media{config: config, etag: image.etag}, nil
}

// firstRead reports whether this is the first download of the image with the given tag.
func (c *HostGroup) firstRead(etag string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verified[etag] {
		return false
	}
	c.verified[etag] = true
	return true
}

// image is a discovery image that is read by HTTP ranges. It implements io.ReaderAt. It is not safe
// for concurrent use.
type image struct {
	ctx     context.Context
	group   *HostGroup
	client  *http.Client
	address string
	size    int64
	etag    string

	mu     sync.Mutex
	blocks map[int64][]byte
}

// openImage reads the size and the tag of an image.
func (c *HostGroup) openImage(ctx context.Context, from *connection, address string) (*image, error) {
	resolved, err := from.base.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the discovery image's address from the appliance, %q, is not a URL: %w",
			address, err)
	}
	if from.base.Scheme == "http" && resolved.Scheme == "https" {
		// The operator is on the appliance's machine and uses plain HTTP there. The image's URL is
		// for other machines, which would have to trust its certificate.
		resolved.Scheme, resolved.Host = from.base.Scheme, from.base.Host
	}
	i := &image{ctx: ctx, group: c, client: from.http, address: resolved.String(), blocks: map[int64][]byte{}}
	err = c.retry(ctx, func() error {
		return i.request(ctx, http.MethodHead, "", func(response *http.Response) error {
			i.size, i.etag = response.ContentLength, response.Header.Get("ETag")
			return nil
		})
	})
	if err == nil && i.size <= 0 {
		err = fmt.Errorf("the response for the discovery image %s contains no length", address)
	}
	return i, err
}

// request requests the image or a range of it and passes a successful response to read.
func (i *image) request(ctx context.Context, method, byteRange string, read func(*http.Response) error) error {
	var answer answer
	request, err := http.NewRequestWithContext(context.WithValue(ctx, answerKey{}, &answer), method, i.address, nil)
	if err != nil {
		return err
	}
	if byteRange != "" {
		request.Header.Set("Range", "bytes="+byteRange)
		if i.etag != "" {
			request.Header.Set("If-Match", i.etag)
		}
	}
	operation := "download the discovery image"
	response, err := i.client.Do(request)
	if err != nil {
		return &RequestError{Operation: operation, Err: err}
	}
	wanted := http.StatusOK
	if byteRange != "" {
		wanted = http.StatusPartialContent
	}
	if response.StatusCode != wanted {
		err := fmt.Errorf("%s of %s returned %s instead of %d", method, i.address, response.Status, wanted)
		return errors.Join(&RequestError{Operation: operation, Status: response.StatusCode, Reason: answer.reason,
			Err: err}, response.Body.Close())
	}
	if err := errors.Join(read(response), response.Body.Close()); err != nil {
		// The connection broke, which is treated like a missing response.
		return &RequestError{Operation: operation, Err: err}
	}
	return nil
}

// ReadAt implements io.ReaderAt. It retries until the context of the image ends.
func (i *image) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read at the negative offset %d", off)
	}
	if off >= i.size {
		return 0, io.EOF
	}
	wanted := min(int64(len(p)), i.size-off)
	var err error
	if wanted >= mediaBlock {
		err = i.fetch(p[:wanted], off)
	} else {
		err = i.readBlocks(p[:wanted], off)
	}
	if err != nil {
		return 0, err
	}
	if wanted < int64(len(p)) {
		return int(wanted), io.EOF
	}
	return int(wanted), nil
}

func (i *image) readBlocks(p []byte, off int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(p) > 0 {
		start := off - off%mediaBlock
		block, ok := i.blocks[start]
		if !ok {
			block = make([]byte, min(mediaBlock, i.size-start))
			if err := i.fetch(block, start); err != nil {
				return err
			}
			if len(i.blocks) >= mediaBlocks {
				clear(i.blocks)
			}
			i.blocks[start] = block
		}
		n := copy(p, block[off-start:])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// fetch downloads one complete range.
func (i *image) fetch(p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	byteRange := fmt.Sprintf("%d-%d", off, off+int64(len(p))-1)
	return i.group.retry(i.ctx, func() error {
		return i.request(i.ctx, http.MethodGet, byteRange, func(response *http.Response) error {
			_, err := io.ReadFull(response.Body, p)
			return err
		})
	})
}

// download downloads the whole image and resumes broken connections. It compares the image with the
// published digest.
func (i *image) download(ctx context.Context) error {
	sum := sha256.New()
	var done int64
	for done < i.size {
		err := i.group.retry(ctx, func() error {
			return i.request(ctx, http.MethodGet, strconv.FormatInt(done, 10)+"-", func(response *http.Response) error {
				n, err := io.Copy(sum, io.LimitReader(response.Body, i.size-done))
				done += n
				if n == 0 && err == nil {
					err = io.ErrUnexpectedEOF
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	published, err := i.publishedDigest(ctx)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); published != "" && got != published {
		return fmt.Errorf("the discovery image %s has the SHA-256 %s, but the appliance publishes %s for it",
			i.address, got, published)
	}
	return nil
}

// publishedDigest returns the image's SHA-256 in hex, or "". The appliance serves it at the image's
// path with ".sha256" appended.
func (i *image) publishedDigest(ctx context.Context) (string, error) {
	address, err := url.Parse(i.address)
	if err != nil {
		return "", err
	}
	address.Path += ".sha256"
	beside := &image{client: i.client, address: address.String()}
	var text []byte
	err = i.group.retry(ctx, func() error {
		err := beside.request(ctx, http.MethodGet, "", func(response *http.Response) (err error) {
			text, err = io.ReadAll(io.LimitReader(response.Body, errorBodyLimit))
			return err
		})
		if status := statusOf(err); status >= 400 && status < 500 || status == http.StatusNotImplemented {
			return nil // no digest is published
		}
		return err
	})
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 || len(fields[0]) != hex.EncodedLen(sha256.Size) {
		return "", err
	}
	return strings.ToLower(fields[0]), nil
}
