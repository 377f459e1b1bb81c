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
	"landfall/appliance/sentence"
	"landfall/isogen"
	"landfall/web/image/progress"
	"landfall/web/problem"
)

// Defaults of [Options].
const (
	DefaultPatience = 5 * time.Minute
	DefaultHold     = 6 * time.Hour
)

// maxRanges limits the ranges in one request. Readers of virtual media request one.
const maxRanges = 100

// Options configures a [Service].
type Options struct {
	Source   Source
	Networks discovery.Networks // at least one
	// Patience is the time after which a client that reads nothing is disconnected; 0 means
	// [DefaultPatience].
	Patience time.Duration
	// Hold is the time for which an idle client that reads in ranges keeps the revision with which
	// it began; 0 means [DefaultHold].
	Hold     time.Duration
	Progress *progress.Recorder // records the progress of the clients; nil makes a new one
	Clock    clockwork.Clock    // nil is the real clock
	// Logger receives the clients that begin to read and the answers that failed; nil discards
	// them.
	Logger *slog.Logger
}

// Service serves downloads.
type Service struct {
	options Options
	readers *readers
	codes   *codes
	pieces  sync.Pool
}

// New returns a service. Any number of servers can register its [Service.Operations].
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
	if options.Progress == nil {
		options.Progress = progress.NewRecorder(options.Clock)
	}
	return &Service{
		options: options, readers: newReaders(options.Clock, options.Hold),
		codes: &codes{clock: options.Clock, source: options.Source, known: make(map[string]code)},
	}
}

// Forget drops the cached data of an infra-env. Later requests get its present image, or 404 if the
// infra-env was deleted.
func (s *Service) Forget(infraEnvID string) {
	s.codes.forget(infraEnvID)
	s.readers.forget(infraEnvID)
	s.options.Progress.Forget(infraEnvID)
}

// ForgetCodes makes the next request resolve the short codes of an infra-env again: one may have
// been revoked. Present readers continue with their images.
func (s *Service) ForgetCodes(infraEnvID string) { s.codes.forget(infraEnvID) }

// Reads reports the reads of an infra-env's images.
func (s *Service) Reads(infraEnvID string) ([]progress.Report, error) {
	registrations, err := s.options.Source.Registrations(infraEnvID)
	if err != nil {
		return nil, err
	}
	return s.options.Progress.Reads(infraEnvID, registrations...), nil
}

// network returns the network that a request came from.
func (s *Service) network(r *http.Request) discovery.Network {
	return s.options.Networks[s.options.Networks.Index(r.Host)]
}

// find returns the present revision of the image that a request names.
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

// pick returns the revision for a request.
func (s *Service) pick(c echo.Context, k readerKey, find find) (*download, error) {
	r := c.Request()
	image := s.readers.pick(k, r)
	if image == nil {
		found, err := find(c, s.options.Networks[k.network])
		if err != nil {
			return nil, asConflict(err)
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

// asConflict returns the errors of package isogen about an infra-env's settings as 409.
func asConflict(err error) error {
	var tooLarge *isogen.TooLargeError
	var arguments *isogen.KernelArgumentError
	if errors.As(err, &tooLarge) || errors.As(err, &arguments) {
		return &problem.Error{Status: http.StatusConflict, Reason: err.Error(), Err: err}
	}
	return err
}

// send answers with an image, as the request's conditions and ranges demand.
func (s *Service) send(c echo.Context, k readerKey, image *download) error {
	r, response := c.Request(), c.Response()
	image.describe(response.Header(), wantsPresent(r))
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		return refuse(response, image, http.StatusRequestedRangeNotSatisfiable,
			fmt.Sprintf("the Range header names more than %d ranges; ask for fewer at a time", maxRanges))
	}
	var read *progress.Read
	if r.Method != http.MethodHead { // HEAD reads nothing
		read = s.follow(r, k, image)
	}
	w := s.newSender(response, r, image, read)
	http.ServeContent(w, r, "", image.Modified, content{w})
	err := w.finish()
	if read != nil {
		read.Done(reason(err))
	}
	if response.Size > pieceSize { // the answer may have taken long
		s.readers.touch(k, r)
	}
	switch w.refused {
	case 0:
		s.logBroken(c, k, image, err)
		return nil
	case http.StatusPreconditionFailed:
		return refuse(response, image, w.refused,
			"the image is not the one that If-Match or If-Unmodified-Since names any more; download it again")
	}
	return refuse(response, image, w.refused,
		fmt.Sprintf("the Range header %q names none of the image's %d bytes; write bytes=FROM-TO",
			shorten(r.Header.Get("Range")), image.Size()))
}

// follow records the progress of a request.
func (s *Service) follow(r *http.Request, k readerKey, image *download) *progress.Read {
	read, first := s.options.Progress.Request(k.client, k.agent, progress.Image{
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

// reason returns the cause of a broken answer in a few words, or "" if the client ended it.
func reason(err error) string {
	switch {
	case errors.Is(err, errStalled):
		return "it took nothing any more and was dropped"
	case errors.As(err, new(*isogen.BaseError)):
		return "the base ISO was changed meanwhile"
	}
	return ""
}

// logBroken logs the cause of a broken answer. net/http closes the connection of an answer that
// lacks bytes, so that the client notices it, too.
func (s *Service) logBroken(c echo.Context, k readerKey, image *download, err error) {
	if err == nil {
		return
	}
	level, message := slog.LevelDebug, "a client cancelled the download of an image"
	if errors.Is(err, errStalled) {
		level, message = slog.LevelWarn, "a client that stopped reading an image was disconnected"
	}
	if errors.As(err, new(*isogen.BaseError)) {
		level, message = slog.LevelError, "a download was cancelled because its base ISO was changed"
		s.options.Source.CheckBase(image.Image)
	}
	s.options.Logger.Log(c.Request().Context(), level, message, "client", k.client, "infra_env_id", image.InfraEnvID,
		"kind", image.Kind, "error", err)
}

// refuse returns an error that net/http found, for an answer in the API's own shape. It deletes the
// headers that describe an image.
func refuse(response *echo.Response, image *download, status int, reason string) error {
	header := response.Header()
	for _, name := range []string{"Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Length",
		"Content-Type", "Last-Modified", "Repr-Digest", "X-Content-Type-Options"} {
		header.Del(name)
	}
	if status == http.StatusRequestedRangeNotSatisfiable {
		header.Set("Content-Range", "bytes */"+strconv.FormatInt(image.Size(), 10))
	}
	return problem.New(status, "%s", reason)
}

// shorten cuts the text of a client for an error message.
func shorten(text string) string { return sentence.Shorten(text, 40) }

// digest answers with the digest of an image in the format of sha256sum. It computes the digest
// during the request, and stops if the client disconnects.
func (s *Service) digest(find find) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		image, err := find(c, s.network(r))
		if err != nil {
			return asConflict(err)
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
