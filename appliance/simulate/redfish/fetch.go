package redfish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// fetchStep is the size of the range that one request reads, in bytes.
const fetchStep = 1 << 20

// An ISO has this mark at this offset (ECMA-119, 8.4.2).
const (
	iso9660Mark   = "CD001"
	iso9660Offset = 16*2048 + 1
)

// Image is a downloaded disc.
type Image struct {
	URL  string
	Path string // path of a file with the content; the file is removed when Boot returns
	Size int64
	// Ejected is closed when the image is removed from its drive. It is nil for an image outside a
	// drive.
	Ejected <-chan struct{}
}

// probe reads an image like a BMC at an insert: its length, and whether it is an ISO.
func (b *BMC) probe(ctx context.Context, address string) error {
	if b.has(Unreachable) {
		return errors.New("no route to host")
	}
	if b.has(NoRanges) {
		_, err := b.request(ctx, http.MethodGet, address, "", func(response *http.Response) error {
			head := make([]byte, iso9660Offset+int64(len(iso9660Mark)))
			if _, err := io.ReadFull(response.Body, head); err != nil {
				return err
			}
			return isDisc(head[iso9660Offset:])
		})
		return err
	}
	size, err := b.request(ctx, http.MethodHead, address, "", nil)
	if err != nil {
		return err
	}
	if size <= iso9660Offset {
		return fmt.Errorf("the image has %d bytes", size)
	}
	_, err = b.request(ctx, http.MethodGet, address, fmt.Sprintf("%d-%d", iso9660Offset,
		iso9660Offset+len(iso9660Mark)-1), func(response *http.Response) error {
		mark, err := io.ReadAll(io.LimitReader(response.Body, int64(len(iso9660Mark))))
		if err != nil {
			return err
		}
		return isDisc(mark)
	})
	return err
}

func isDisc(mark []byte) error {
	if string(mark) != iso9660Mark {
		return errors.New("the image is not an ISO 9660 image")
	}
	return nil
}

// fetch downloads a complete image into a file: with ranges like a BMC, or without ranges like UEFI
// firmware.
func (b *BMC) fetch(ctx context.Context, address string, firmware bool) (_ *Image, err error) {
	file, err := os.CreateTemp(b.options.Dir, "virtual-media-*.iso")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	image := &Image{URL: address, Path: file.Name()}
	save := func(response *http.Response) error {
		n, err := io.Copy(file, response.Body)
		image.Size += n
		return err
	}
	if firmware {
		ctx = context.WithValue(ctx, userAgent{}, "UefiHttpBoot/1.0")
	}
	if b.has(NoRanges) || firmware {
		_, err := b.request(ctx, http.MethodGet, address, "", save)
		return image, err
	}
	size, err := b.request(ctx, http.MethodHead, address, "", nil)
	for err == nil && image.Size < size {
		_, err = b.request(ctx, http.MethodGet, address, fmt.Sprintf("%d-%d", image.Size,
			min(image.Size+fetchStep, size)-1), save)
	}
	return image, err
}

// userAgent is the context key of the client's name.
type userAgent struct{}

// request requests an image or a range of it. It returns the length in the response.
func (b *BMC) request(ctx context.Context, method, address, byteRange string,
	read func(*http.Response) error) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return 0, err
	}
	if name, ok := ctx.Value(userAgent{}).(string); ok {
		request.Header.Set("User-Agent", name)
	}
	wanted := http.StatusOK
	if byteRange != "" {
		request.Header.Set("Range", "bytes="+byteRange)
		wanted = http.StatusPartialContent
	}
	response, err := b.client.Do(request)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != wanted {
		return 0, errors.Join(fmt.Errorf("%s returned %s", method, response.Status), response.Body.Close())
	}
	if read != nil {
		err = read(response)
	}
	return response.ContentLength, errors.Join(err, response.Body.Close())
}
