package iso

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/architecture"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/osimage"
)

// pieceBytes is the size of one request. After a broken connection, one piece is sent again.
const pieceBytes = 16 << 20

// sendTries is the number of attempts to send a piece.
const sendTries = 6

// importer holds the options of landfall iso import.
type importer struct {
	*library
	announced       osimage.UploadRequest
	release, secret string
	noWait          bool
	errOut          io.Writer
	retryAfter      time.Duration // wait before the first retry; doubles with each attempt
}

func newImport() *cobra.Command {
	o := &importer{library: &library{action.New()}, retryAfter: time.Second}
	cmd := &cobra.Command{
		Use:   "import FILE|-|URL | --release VERSION",
		Short: "Import a live ISO into a running appliance",
		Long: "Import a live ISO into a running appliance: from a file, standard input (-), a URL from which the " +
			"appliance downloads\nit, or a release payload in the appliance's mirror. To continue an interrupted " +
			"import, import the same file " +
			"again.\n" +
			"The version and architecture are read from the image. Contradicting flags are rejected. Import an image " +
			"that several minor\nversions have once for each of them.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			o.errOut = cmd.ErrOrStderr()
			if (len(arguments) == 1) == (o.release != "") {
				return outcome.Usagef("the source is missing; name a file, - for standard input, or a URL, or give " +
					"--release")
			}
			image, err := o.run(cmd.Context(), arguments, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return o.Format.Document(cmd.OutOrStdout(), "iso", image.ID, image, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "%s %s: OpenShift %s, %s, %s, %s, sha256 %s\n",
					image.ID, image.Progress(),
					output.OrDash(image.OpenshiftVersion), output.OrDash(image.CPUArchitecture),
					output.OrDash(image.VolumeID),
					output.Size(image.SizeBytes), output.OrDash(image.SHA256))
				return err
			})
		},
	}
	o.Formerly(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.announced.OpenshiftVersion, "openshift-version", "",
		"OpenShift version of the image, such as 4.20; required from 4.19 on, because these images do not contain it")
	flags.StringVar(&o.announced.CPUArchitecture, "arch", "",
		"architecture: x86_64, aarch64, ppc64le, s390x; default: the image's own; for a release, x86_64")
	flags.StringVar(&o.announced.SHA256, "sha256", "", "expected digest of the image")
	flags.StringVar(&o.release, "release", "",
		"version or pull spec of the release whose payload contains the image")
	flags.StringVar(&o.secret, "pull-secret", "",
		"with --release: file with the pull secret for the mirror; default: the appliance's own")
	flags.BoolVar(&o.noWait, "no-wait", false, "with a URL or --release: do not wait until the image is available")
	return cmd
}

func (o *importer) run(ctx context.Context, arguments []string, stdin io.Reader) (*osimage.Image, error) {
	switch {
	case o.release != "":
		return o.fetch(ctx, osimage.Request{Release: o.release})
	case strings.HasPrefix(arguments[0], "http://") || strings.HasPrefix(arguments[0], "https://"):
		return o.fetch(ctx, osimage.Request{URL: arguments[0]})
	case arguments[0] == "-":
		o.announced.Name = "standard input"
		return o.upload(ctx, stdin, &osimage.Upload{})
	}
	return o.importFile(ctx, arguments[0])
}

// fetch has the appliance download an image.
func (o *importer) fetch(ctx context.Context, request osimage.Request) (*osimage.Image, error) {
	request.OpenshiftVersion, request.CPUArchitecture, request.SHA256 = o.announced.OpenshiftVersion,
		o.announced.CPUArchitecture, o.announced.SHA256
	if o.secret != "" {
		secret, err := os.ReadFile(o.secret)
		if err != nil {
			return nil, fmt.Errorf("read the pull secret: %w", err)
		}
		request.PullSecret = string(secret)
	}
	var image osimage.Image
	if err := o.Call(ctx, http.MethodPost, osImagesPath, request, &image); err != nil || o.noWait {
		return &image, err
	}
	image, err := o.library.follow(ctx, image, "fetching "+image.Name, o.errOut, func(state osimage.State) bool {
		return state != osimage.StateReady && state != osimage.StateBad
	})
	if err == nil && image.State == osimage.StateBad {
		err = errors.New(image.Message) // the error is printed; the failed download is removed from the list
		err = errors.Join(err, o.Call(ctx, http.MethodDelete, osImagesPath+"/"+url.PathEscape(image.ID),
			nil, nil))
	}
	return &image, err
}

func (o *importer) importFile(ctx context.Context, path string) (_ *osimage.Image, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("import a live ISO: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, outcome.Usagef("%s is a directory; name a live ISO file", path)
	}
	o.announced.Name = filepath.Base(path)
	if info.Mode().IsRegular() {
		o.announced.SizeBytes = info.Size()
	}
	begun, err := o.interrupted(ctx)
	if err != nil {
		return nil, err
	}
	return o.upload(ctx, file, begun)
}

// interrupted returns an interrupted import of the same file.
func (o *importer) interrupted(ctx context.Context) (*osimage.Upload, error) {
	images, err := o.osImages(ctx)
	if err != nil {
		return nil, err
	}
	for _, image := range images {
		if image.Source == osimage.SourceImport && image.State == osimage.StateWaiting &&
			image.Name == o.announced.Name && image.TotalBytes == o.announced.SizeBytes && image.TotalBytes > 0 {
			up, err := o.ask(ctx, image.ID)
			if err != nil || o.matches(up) {
				return up, err
			}
			fmt.Fprintf(o.errOut, "landfall: the interrupted import began with other values of --openshift-version, "+
				"--arch or --sha256; the import starts over\n")
			if err := o.Call(ctx, http.MethodDelete, uploadPath(up.ID), nil, nil); err != nil {
				return nil, err
			}
		}
	}
	return &osimage.Upload{}, nil
}

// matches reports whether an upload was started with the values of the given flags, so that it can
// continue. An upload without a digest can, because sendAll compares the digest.
func (o *importer) matches(up *osimage.Upload) bool {
	is := func(given, started string) bool { return given == "" || given == started }
	return is(o.announced.OpenshiftVersion, up.OpenshiftVersion) &&
		is(architecture.Of(o.announced.CPUArchitecture).RPM(), up.CPUArchitecture) &&
		(up.SHA256 == "" || is(strings.ToLower(o.announced.SHA256), up.SHA256))
}

func (o *importer) ask(ctx context.Context, id string) (*osimage.Upload, error) {
	up := new(osimage.Upload)
	return up, o.Call(ctx, http.MethodGet, uploadPath(id), nil, up)
}

func uploadPath(id string) string { return osImagesPath + "/uploads/" + url.PathEscape(id) }

// upload sends the content of in. It also computes the digest, to verify that the appliance
// received the same bytes.
func (o *importer) upload(ctx context.Context, in io.Reader, up *osimage.Upload) (*osimage.Image, error) {
	if up.ID == "" {
		if err := o.Call(ctx, http.MethodPost, osImagesPath+"/uploads", o.announced, up); err != nil {
			return nil, err
		}
	}
	bar := output.NewMeter(o.errOut, "importing "+o.announced.Name, o.announced.SizeBytes)
	defer bar.End()
	sum := sha256.New()
	if up.Offset > 0 {
		fmt.Fprintf(o.errOut, "landfall: continuing the import that was interrupted after %s\n", output.Size(up.Offset))
		if _, err := io.CopyN(io.MultiWriter(sum, bar), in, up.Offset); err != nil {
			return nil, fmt.Errorf("read %s: %w", o.announced.Name, err)
		}
	}
	image, err := o.sendAll(ctx, bufio.NewReaderSize(io.TeeReader(in, sum), 64<<10), up, bar, sum)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the import was interrupted; import the same file again to continue, or discard it with "+
				"landfall iso remove %s", up.ID)
		}
		return nil, err
	}
	return image, o.compareDigests(ctx, image, sum)
}

// compareDigests returns an error if the digests differ. They differ if an interrupted import
// continued with another file of the same name and size.
func (o *importer) compareDigests(ctx context.Context, image *osimage.Image, sum hash.Hash) error {
	if got := hex.EncodeToString(sum.Sum(nil)); got != image.SHA256 {
		err := o.Call(ctx, http.MethodDelete, osImagesPath+"/"+url.PathEscape(image.ID), nil, nil)
		return errors.Join(fmt.Errorf("the appliance received sha256 %s, but the file has %s: the interrupted import "+
			"began with another file; import the file again", image.SHA256, got), err)
	}
	return nil
}

// sendAll sends all pieces. The last request contains the total size if it was unknown before. sum
// is the digest of what was read from in. It is compared with --sha256 before the last piece,
// because the appliance does not know the expected digest if the import began without it.
func (o *importer) sendAll(ctx context.Context, in *bufio.Reader, up *osimage.Upload,
	bar *output.Meter, sum hash.Hash) (*osimage.Image, error) {
	piece, offset := make([]byte, pieceBytes), up.Offset
	for {
		n, err := io.ReadFull(in, piece)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("read %s: %w", o.announced.Name, err)
		}
		_, err = in.Peek(1)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read %s: %w", o.announced.Name, err)
		}
		total := int64(0)
		if last := err != nil; last {
			total = offset + int64(n)
			if total == 0 {
				return nil, errors.Join(fmt.Errorf("%s is empty; name a live ISO", o.announced.Name),
					o.Call(ctx, http.MethodDelete, uploadPath(up.ID), nil, nil))
			}
			got := hex.EncodeToString(sum.Sum(nil))
			if want := o.announced.SHA256; want != "" && !strings.EqualFold(got, want) {
				return nil, errors.Join(fmt.Errorf("%s has sha256 %s, but --sha256 is %s; correct the digest, or name "+
					"the right file", o.announced.Name, got, want),
					o.Call(ctx, http.MethodDelete, uploadPath(up.ID), nil, nil))
			}
		}
		image, err := o.sendPiece(ctx, up.ID, offset, total, piece[:n], bar)
		if err != nil || image != nil {
			return image, err
		}
		if offset += int64(n); total > 0 {
			return nil,
				fmt.Errorf("the size of %s changed during the import (%d bytes now, %d at the beginning); import the "+
					"file again",
					o.announced.Name, total, o.announced.SizeBytes)
		}
	}
}

// sendPiece sends one piece, and sends it again after a broken connection.
func (o *importer) sendPiece(ctx context.Context, id string, offset, total int64, piece []byte,
	bar *output.Meter) (*osimage.Image, error) {
	start, wait := offset, o.retryAfter
	for try := 1; ; try++ {
		image, err := o.send(ctx, id, offset, total, piece[offset-start:])
		if err == nil {
			bar.Set(start+int64(len(piece)), o.announced.SizeBytes)
			return image, nil
		}
		broken := new(brokenError)
		if !errors.As(err, &broken) || try == sendTries || ctx.Err() != nil {
			return nil, err
		}
		fmt.Fprintf(o.errOut, "landfall: %s; trying again in %s\n", outcome.Line(err), wait)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
		up, err := o.ask(ctx, id)
		switch {
		case err == nil && up.Offset >= start && up.Offset <= start+int64(len(piece)):
			offset = up.Offset
		case err != nil:
			if image := o.imported(ctx, id); image != nil {
				bar.Set(start+int64(len(piece)), o.announced.SizeBytes)
				return image, nil
			}
		}
	}
}

// imported returns the image that an upload has become, although the answer was lost, or nil.
func (o *importer) imported(ctx context.Context, id string) *osimage.Image {
	images, err := o.osImages(ctx)
	at := slices.IndexFunc(images, func(image osimage.Image) bool { return image.ID == id && image.Usable() })
	if err != nil || at < 0 {
		return nil
	}
	return &images[at]
}

// brokenError is the error of a request that may succeed at the next attempt.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

func (o *importer) send(ctx context.Context, id string, offset, total int64, piece []byte) (*osimage.Image, error) {
	c := o.Action
	path := uploadPath(id)
	header := http.Header{"Content-Type": {"application/offset+octet-stream"},
		"Upload-Offset": {strconv.FormatInt(offset, 10)}}
	if total > 0 && o.announced.SizeBytes == 0 {
		header.Set("Upload-Length", strconv.FormatInt(total, 10))
	}
	response, err := c.Do(ctx, http.MethodPatch, path, header, bytes.NewReader(piece))
	if err != nil {
		return nil, &brokenError{err}
	}
	answer, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, &brokenError{fmt.Errorf("read the response of the appliance: %w", err)}
	}
	switch {
	case response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusConflict &&
		response.Header.Get("Upload-Offset") != "":
		return nil, &brokenError{c.Refusal(http.MethodPatch, path, response, answer)}
	case response.StatusCode >= http.StatusBadRequest:
		return nil, c.Refusal(http.MethodPatch, path, response, answer)
	case response.StatusCode != http.StatusOK:
		return nil, nil
	}
	image := new(osimage.Image)
	if err := json.Unmarshal(answer, image); err != nil {
		return nil, fmt.Errorf("the response does not match the API: %w; check whether another service has this URL",
			err)
	}
	return image, nil
}
