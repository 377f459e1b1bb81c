package image

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/labstack/echo/v4"

	"landfall/appliance/discovery"
	"landfall/isogen"
	"landfall/web/image/telescope"
	"landfall/web/problem"
)

// What a service does when its options leave something out.
const (
	DefaultPatience = 5 * time.Minute
	DefaultHold     = 6 * time.Hour
)

// maxRanges is how many ranges one request may name. Readers of virtual media name one.
const maxRanges = 100

// Options is what a [Service] is made from.
type Options struct {
	Source   Source
	Networks discovery.Networks // at least one
	// Patience is how long a client may take nothing of what it asked for before it is dropped; 0
	// means [DefaultPatience].
	Patience time.Duration
	// Hold is how long a client that reads in ranges may be quiet and still go on with the revision
	// it began with; 0 means [DefaultHold].
	Hold      time.Duration
	Telescope *telescope.Telescope // follows what is read
	Clock     clockwork.Clock      // nil is the real one
	// hears who begins to read, and of answers that had to be broken off; nil discards it
	Logger *slog.Logger
}

// Service answers downloads.
type Service struct {
	options Options
	readers *readers
	codes   *codes
	pieces  sync.Pool
}

// New returns a service. Its routes are added to any number of routers by [Service.Register].
func New(options Options) *Service {
	if options.Patience == 0 {
		options.Patience = DefaultPatience
	}
	if options.Hold == 0 {
		options.Hold = DefaultHold
	}
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Telescope == nil {
		options.Telescope = telescope.New(options.Clock)
	}
	return &Service{
		options: options, readers: newReaders(options.Clock, options.Hold),
		codes: &codes{clock: options.Clock, source: options.Source, known: make(map[string]code)},
	}
}

// Forget drops what is known of an infra-env: its images are answered anew, or not at all if it was
// deleted.
func (s *Service) Forget(infraEnvID string) {
	s.codes.forget(infraEnvID)
	s.readers.forget(infraEnvID)
	s.options.Telescope.Forget(infraEnvID)
}

// ForgetCodes makes the next request resolve the short codes of an infra-env again: one may have
// been revoked. Present readers continue with their images.
func (s *Service) ForgetCodes(infraEnvID string) { s.codes.forget(infraEnvID) }

// Reads reports the reads of an infra-env's images.
func (s *Service) Reads(infraEnvID string) ([]telescope.Report, error) {
	registrations, err := s.options.Source.Registrations(infraEnvID)
	if err != nil {
		return nil, err
	}
	return s.options.Telescope.Reads(infraEnvID, registrations...), nil
}

// network returns the network that a request came from.
func (s *Service) network(r *http.Request) discovery.Network {
	return s.options.Networks[s.options.Networks.Index(r.Host)]
}

// find makes the image that a request asks for as it is now.
type find func(c echo.Context, network discovery.Network) (*discovery.Image, error)

// answer returns the handler of a download.
func (s *Service) answer(find find) echo.HandlerFunc {
	return func(c echo.Context) error {
		k := s.key(c.Request())
		image, err := s.pick(c, k, find)
		if err != nil {
			return err
		}
		return s.send(c, k, image)
	}
}

// pick returns the revision that a request is answered with.
func (s *Service) pick(c echo.Context, k readerKey, find find) (*download, error) {
	r := c.Request()
	image := s.readers.pick(k, r)
	if image == nil {
		found, err := find(c, s.options.Networks[k.network])
		if err != nil {
			return nil, told(err)
		}
		image = s.readers.bind(k, r, &download{Image: found})
	}
	if err := image.Intact(); err != nil {
		s.options.Source.CheckBase(image.Image)
		return nil, &problem.Error{Status: http.StatusServiceUnavailable, Reason: err.Error(), Err: err}
	}
	return image, nil
}

func (s *Service) key(r *http.Request) readerKey {
	k := readerKey{client: clientOf(r), path: r.URL.Path, network: s.options.Networks.Index(r.Host)}
	if agent := r.Header["User-Agent"]; len(agent) > 0 {
		k.agent = agent[0]
	}
	if r.URL.RawQuery != "" {
		k.path += "?" + r.URL.RawQuery
	}
	return k
}

// told brings what isogen refuses into the API's shape.
func told(err error) error {
	var tooLarge *isogen.TooLargeError
	var arguments *isogen.KernelArgumentError
	if errors.As(err, &tooLarge) || errors.As(err, &arguments) {
		return &problem.Error{Status: http.StatusConflict, Reason: err.Error(), Err: err}
	}
	return err
}

// send answers with an image, or with what the request's conditions and ranges leave of it.
func (s *Service) send(c echo.Context, k readerKey, image *download) error {
	r, response := c.Request(), c.Response()
	image.describe(response.Header(), asksForPresent(r))
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		return refuse(response, image, http.StatusRequestedRangeNotSatisfiable,
			fmt.Sprintf("the Range header names more than %d ranges; ask for fewer at a time", maxRanges))
	}
	var read *telescope.Read
	if r.Method != http.MethodHead { // which reads nothing
		read = s.follow(r, k, image)
	}
	w := s.newSender(response, r, image, read)
	http.ServeContent(w, r, "", image.Modified, content{w})
	err := w.finish()
	if read != nil {
		read.Done(reason(err))
	}
	if response.Size > pieceSize { // it may have taken long
		s.readers.touch(k, r)
	}
	switch w.refused {
	case 0:
		s.note(c, k, image, err)
		return nil
	case http.StatusPreconditionFailed:
		return refuse(response, image, w.refused,
			"the image is not the one that If-Match or If-Unmodified-Since names any more; download it again")
	}
	return refuse(response, image, w.refused,
		fmt.Sprintf("the Range header %q names none of the image's %d bytes; write bytes=FROM-TO",
			shortened(r.Header.Get("Range")), image.Size()))
}

// follow has the telescope follow what a request reads.
func (s *Service) follow(r *http.Request, k readerKey, image *download) *telescope.Read {
	read, first := s.options.Telescope.Request(k.client, k.agent, telescope.Image{
		InfraEnvID: image.InfraEnvID, Kind: string(image.Kind), Revision: image.ETag(), Size: image.Size(),
		Segments: image.Segments(),
	})
	if first {
		s.options.Logger.InfoContext(r.Context(), "a client begins to read an image", "client", k.client, "agent",
			k.agent,
			"infra_env_id", image.InfraEnvID, "kind", image.Kind, "etag", image.ETag())
	}
	return read
}

// reason says in a few words why an answer was broken off, if it was not the client who did.
func reason(err error) string {
	switch {
	case errors.Is(err, errStalled):
		return "it took nothing any more and was dropped"
	case errors.As(err, new(*isogen.BaseError)):
		return "the base ISO was changed meanwhile"
	}
	return ""
}

// note logs why an answer was broken off. net/http closes the connection of an answer that lacks
// bytes, so that the client sees it too.
func (s *Service) note(c echo.Context, k readerKey, image *download, err error) {
	if err == nil {
		return
	}
	level, message := slog.LevelDebug, "a client gave an image up"
	if errors.Is(err, errStalled) {
		level, message = slog.LevelWarn, "a client that took nothing of an image any more was dropped"
	}
	if errors.As(err, new(*isogen.BaseError)) {
		level, message = slog.LevelError, "a download was broken off because its base ISO was changed"
		s.options.Source.CheckBase(image.Image)
	}
	s.options.Logger.Log(c.Request().Context(), level, message, "client", k.client, "infra_env_id", image.InfraEnvID,
		"kind", image.Kind, "error", err)
}

// refuse returns an error that net/http found in the API's own shape, with none of the headers that
// describe an image.
func refuse(response *echo.Response, image *download, status int, sentence string) error {
	header := response.Header()
	for _, name := range []string{"Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Length",
		"Content-Type", "Last-Modified", "Repr-Digest", "X-Content-Type-Options"} {
		header.Del(name)
	}
	if status == http.StatusRequestedRangeNotSatisfiable {
		header.Set("Content-Range", "bytes */"+strconv.FormatInt(image.Size(), 10))
	}
	return problem.New(status, "%s", sentence)
}

func shortened(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// digest answers with the digest of an image as sha256sum prints it. It is computed in the
// request's own time, and ends when the client goes away.
func (s *Service) digest(find find) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		image, err := find(c, s.network(r))
		if err != nil {
			return told(err)
		}
		sum, err := image.SHA256(r.Context())
		if err != nil {
			return fmt.Errorf("compute the digest of the discovery image: %w", err)
		}
		header := c.Response().Header()
		header.Set("ETag", `"`+sum+`"`)
		header.Set("Content-Type", "text/plain; charset=utf-8")
		header.Set("Cache-Control", "private, no-cache")
		http.ServeContent(c.Response(), r, "", image.Modified, strings.NewReader(sum+"  "+image.FileName+"\n"))
		return nil
	}
}
