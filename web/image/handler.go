package image

import (
	"context"
	"crypto/sha256"
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
	DefaultStallTimeout = 5 * time.Minute
	DefaultHold         = 6 * time.Hour
)

// maxRanges limits the ranges in one request. Readers of virtual media request one.
const maxRanges = 100

// Options configures a [Service].
type Options struct {
	Source   Source
	Networks discovery.Networks // at least one
	// Tokens verifies the tokens in URLs. nil: the appliance does not authenticate clients, and
	// reads only the infra-env from a token.
	Tokens Tokens
	// StallTimeout is the time after which a client that does not read is disconnected; 0 means
	// [DefaultStallTimeout].
	StallTimeout time.Duration
	// Hold is the time for which a client with range requests may be idle before it loses its
	// revision of the image; 0 means [DefaultHold].
	Hold     time.Duration
	Progress *progress.Recorder // records the progress of clients; nil means a new recorder
	// Elsewhere returns the reads at other members of a fleet: for each member what its
	// [Service.OwnReads] returns, as JSON. It is nil on a single machine.
	Elsewhere func(context.Context) [][]byte
	Clock     clockwork.Clock // nil means the real clock
	// Logger receives the starts and the failures of downloads; nil discards them.
	Logger *slog.Logger
}

// Service serves image downloads.
type Service struct {
	options Options
	readers *readers
	codes   *codes
	others  *others
	pieces  sync.Pool
}

// New returns a service. Any number of servers can register its [Service.Operations].
func New(options Options) *Service {
	if options.StallTimeout == 0 {
		options.StallTimeout = DefaultStallTimeout
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
		codes:  &codes{clock: options.Clock, source: options.Source, known: make(map[string]code)},
		others: &others{ask: options.Elsewhere, clock: options.Clock, logger: options.Logger},
	}
}

// DropInfraEnv drops the cached data of an infra-env. Later requests receive its current image, or
// 404 if the infra-env was deleted.
func (s *Service) DropInfraEnv(infraEnvID string) {
	s.codes.drop(infraEnvID)
	s.readers.drop(infraEnvID)
	s.options.Progress.DropInfraEnv(infraEnvID)
}

// DropCodes drops the cached short codes of an infra-env, because one may have been revoked.
// Running downloads continue with their images.
func (s *Service) DropCodes(infraEnvID string) { s.codes.drop(infraEnvID) }

// network returns the network that a request came from.
func (s *Service) network(r *http.Request) discovery.Network {
	return s.options.Networks[s.options.Networks.Index(r.Host)]
}

// find returns the current revision of the image that a request names.
type find func(c echo.Context, network discovery.Network) (*discovery.Image, error)

// answer returns the handler of a download.
func (s *Service) answer(find find) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.checkToken(c); err != nil {
			return err
		}
		k := s.key(c.Request())
		image, err := s.pick(c, k, find)
		if err != nil {
			return err
		}
		return s.send(c, k, image)
	}
}

// pick returns the revision to send for a request.
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

// maxKeyText is the length in bytes of the longest User-Agent and of the longest path in a key.
const maxKeyText = 256

// key returns the key of a client. It keeps only bounded copies of what the client sent, because
// anybody can send many long texts.
func (s *Service) key(r *http.Request) readerKey {
	k := readerKey{client: clientOf(r), path: strings.Clone(r.URL.Path), network: s.options.Networks.Index(r.Host)}
	if agent := r.Header["User-Agent"]; len(agent) > 0 {
		k.agent = strings.Clone(agent[0][:min(len(agent[0]), maxKeyText)])
	}
	if r.URL.RawQuery != "" {
		sent := r.URL.Query()
		for _, name := range []string{"type", "version", "arch"} { // those that select an image
			if sent.Has(name) {
				k.path += "&" + name + "=" + sent.Get(name)
			}
		}
	}
	if len(k.path) > maxKeyText {
		digest := sha256.Sum256([]byte(k.path))
		k.path = string(digest[:])
	}
	return k
}

// asConflict converts the errors of package isogen about the settings of an infra-env into 409.
func asConflict(err error) error {
	var tooLarge *isogen.TooLargeError
	var arguments *isogen.KernelArgumentError
	if errors.As(err, &tooLarge) || errors.As(err, &arguments) {
		return &problem.Error{Status: http.StatusConflict, Reason: err.Error(), Err: err}
	}
	return err
}

// send sends an image according to the conditions and ranges of the request.
func (s *Service) send(c echo.Context, k readerKey, image *download) error {
	r, response := c.Request(), c.Response()
	image.describe(response.Header(), wantsCurrent(r))
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		return refuse(response, image, http.StatusRequestedRangeNotSatisfiable,
			fmt.Sprintf("the Range header has more than %d ranges; request fewer at a time", maxRanges))
	}
	var read *progress.Read
	if r.Method != http.MethodHead { // a HEAD request reads nothing
		read = s.follow(r, k, image)
	}
	w := s.newSender(response, r, image, read)
	http.ServeContent(w, r, "", image.Modified, content{w})
	err := w.finish()
	if read != nil {
		read.Done(reason(err))
	}
	if response.Size > pieceSize { // the response may have taken long
		s.readers.touch(k, r)
	}
	switch w.refused {
	case 0:
		s.logBroken(c, k, image, err)
		return nil
	case http.StatusPreconditionFailed:
		return refuse(response, image, w.refused,
			"the image has changed since the revision in If-Match or If-Unmodified-Since; download the image again")
	}
	return refuse(response, image, w.refused,
		fmt.Sprintf("the Range header %q selects none of the image's %d bytes; write bytes=FROM-TO",
			shorten(r.Header.Get("Range")), image.Size()))
}

// follow records the progress of a request.
func (s *Service) follow(r *http.Request, k readerKey, image *download) *progress.Read {
	read, first := s.options.Progress.Request(k.client, k.agent, progress.Image{
		InfraEnvID: image.InfraEnvID, Kind: string(image.Kind), Revision: image.ETag(), Size: image.Size(),
		Segments: image.Segments(),
	}, len(r.Header["Range"]) == 0)
	if first {
		s.options.Logger.InfoContext(r.Context(), "Download of an image started.", "client", k.client, "agent",
			k.agent,
			"infra_env_id", image.InfraEnvID, "kind", image.Kind, "etag", image.ETag())
	}
	return read
}

// reason returns the cause of an incomplete response in a few words, or "" if the client closed the
// connection.
func reason(err error) string {
	switch {
	case errors.Is(err, errStalled):
		return "the client stopped reading and was disconnected"
	case errors.As(err, new(*isogen.BaseError)):
		return "the base ISO was changed during the download"
	}
	return ""
}

// logBroken logs the cause of an incomplete response. net/http closes the connection after such a
// response, so that the client detects it.
func (s *Service) logBroken(c echo.Context, k readerKey, image *download, err error) {
	if err == nil {
		return
	}
	level, message := slog.LevelDebug, "Client cancelled the download of an image."
	if errors.Is(err, errStalled) {
		level, message = slog.LevelWarn, "Client was disconnected because it stopped reading an image."
	}
	if errors.As(err, new(*isogen.BaseError)) {
		level, message = slog.LevelError, "Download cancelled because the base ISO was changed."
		s.options.Source.CheckBase(image.Image)
	}
	s.options.Logger.Log(c.Request().Context(), level, message, "client", k.client, "infra_env_id", image.InfraEnvID,
		"kind", image.Kind, "error", err)
}

// refuse returns an error of net/http in the format of the API. It deletes the headers that
// describe an image.
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

// shorten shortens a text of the client for an error message.
func shorten(text string) string { return sentence.Shorten(text, 40) }

// digest sends the digest of an image in the format of sha256sum. It computes the digest during the
// request and stops if the client disconnects.
func (s *Service) digest(find find) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.checkToken(c); err != nil {
			return err
		}
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
