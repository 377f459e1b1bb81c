package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/jonboulle/clockwork"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"landfall/appliance/kube/objects"
)

// manager is the field manager of objects that this program applies.
const manager = "landfall"

// Server is an appliance's Kubernetes API.
type Server struct {
	URL   string
	Token string // "" for none
	HTTP  *http.Client
	Clock clockwork.Clock // nil: the real clock

	kinds map[string]map[string]resource // by apiVersion and kind; read on first use
}

// resource contains the values from the API discovery that the URLs of a kind need.
type resource struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced"`
}

// RefusedError is the error of a request that the API rejected.
type RefusedError struct {
	Code    int
	Reason  string // such as Conflict, NotFound
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

func isNotFound(err error) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && refused.Code == http.StatusNotFound
}

// NoAPIError reports that the server at a URL does not serve the Kubernetes API.
type NoAPIError struct{ URL string }

func (e *NoAPIError) Error() string {
	return fmt.Sprintf("the appliance at %s does not serve the Kubernetes API; enable it with kubernetes.enabled, or "+
		"name "+
		"another address with --url", e.URL)
}

// startRetries is the number of retries, one per second, while the API is starting.
const startRetries = 15

// response is a successful response of the API.
type response struct {
	code     int
	warnings []Warning
}

// request sends a request and decodes the response. While the API is starting, the request is
// retried.
func (s *Server) request(ctx context.Context, method, path, contentType string, body []byte,
	into any) (response, error) {
	clock := s.Clock
	if clock == nil {
		clock = clockwork.NewRealClock()
	}
	for try := 0; ; try++ {
		answer, err := s.askOnce(ctx, method, path, contentType, body, into)
		refused, isRefusal := errors.AsType[*RefusedError](err)
		if !isRefusal || refused.Code != http.StatusServiceUnavailable || try == startRetries {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return response{}, err
		case <-clock.After(pollInterval):
		}
	}
}

func (s *Server) askOnce(ctx context.Context, method, path, contentType string, body []byte, into any) (response,
	error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return response{}, err
	}
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if s.Token != "" {
		request.Header.Set("Authorization", "Bearer "+s.Token)
	}
	answer, err := s.HTTP.Do(request)
	if err != nil {
		return response{}, err
	}
	content, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return response{}, fmt.Errorf("read the response of %s: %w", s.URL, err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return response{}, refusal(answer.StatusCode, answer.Status, method+" "+path, content)
	}
	accepted := response{code: answer.StatusCode}
	warnings, _ := utilnet.ParseWarningHeaders(answer.Header.Values("Warning")) // those that it can parse
	for _, w := range warnings {
		accepted.warnings = append(accepted.warnings, Warning{w.Text, w.Agent == objects.WarningAgent})
	}
	if into == nil {
		return accepted, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return response{}, &NoAPIError{s.URL}
	}
	return accepted, nil
}

// refusal parses a metav1.Status, with which the API rejects requests.
func refusal(code int, status, what string, answer []byte) error {
	var shape struct{ Kind, Reason, Message string }
	if err := json.Unmarshal(answer, &shape); err != nil || shape.Message == "" {
		shape.Message = fmt.Sprintf("the appliance answered %s to %s", status, what)
	}
	return &RefusedError{code, shape.Reason, strings.Join(strings.Fields(shape.Message), " ")}
}

// resource returns the resource of a kind.
func (s *Server) resource(ctx context.Context, apiVersion, kind string) (resource, error) {
	if kinds, ok := s.kinds[apiVersion]; ok {
		return found(kinds, apiVersion, kind)
	}
	var list struct {
		Kind      string     `json:"kind"`
		Resources []resource `json:"resources"`
	}
	_, err := s.request(ctx, http.MethodGet, root(apiVersion), "", nil, &list)
	switch {
	case isNotFound(err) && apiVersion != coreVersion:
		if _, err := s.resource(ctx, coreVersion, "Secret"); err != nil {
			return resource{}, err
		}
	case isNotFound(err) || err == nil && list.Kind != "APIResourceList":
		return resource{}, &NoAPIError{s.URL}
	case err != nil:
		return resource{}, err
	}
	kinds := map[string]resource{}
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") {
			kinds[r.Kind] = r
		}
	}
	if s.kinds == nil {
		s.kinds = map[string]map[string]resource{}
	}
	s.kinds[apiVersion] = kinds
	return found(kinds, apiVersion, kind)
}

// coreVersion is the group and version of the kinds without a group.
const coreVersion = "v1"

func found(kinds map[string]resource, apiVersion, kind string) (resource, error) {
	r, ok := kinds[kind]
	if !ok {
		return r, &RefusedError{http.StatusNotFound, "NoKind", fmt.Sprintf("the appliance has no kind %s of %s",
			kind, apiVersion)}
	}
	return r, nil
}

func root(apiVersion string) string {
	if strings.Contains(apiVersion, "/") {
		return "/apis/" + apiVersion
	}
	return "/api/" + apiVersion
}

// path returns the path of an object, or of all objects of its kind if the name is "".
func (s *Server) path(ctx context.Context, apiVersion, kind, namespace, name string) (string, error) {
	r, err := s.resource(ctx, apiVersion, kind)
	if err != nil {
		return "", err
	}
	path := root(apiVersion)
	if r.Namespaced && namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + r.Name
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path, nil
}

// Get returns an object; nil if it does not exist. The error is a *RefusedError, a *NoAPIError or
// an error of the connection.
func (s *Server) Get(ctx context.Context, kind objects.Kind, namespace, name string) (map[string]any, error) {
	return s.get(ctx, kind.APIVersion(), kind.Kind, namespace, name)
}

// List returns the objects of a kind in a namespace; "" is all. Errors are those of Get.
func (s *Server) List(ctx context.Context, kind objects.Kind, namespace string) ([]map[string]any, error) {
	path, err := s.path(ctx, kind.APIVersion(), kind.Kind, namespace, "")
	if err != nil {
		return nil, err
	}
	var answer struct{ Items []map[string]any }
	if _, err := s.request(ctx, http.MethodGet, path, "", nil, &answer); err != nil {
		return nil, err
	}
	for _, item := range answer.Items { // items of a list may lack apiVersion and kind
		item["apiVersion"], item["kind"] = kind.APIVersion(), kind.Kind
	}
	return answer.Items, nil
}

func (s *Server) get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	path, err := s.path(ctx, apiVersion, kind, namespace, name)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if _, err := s.request(ctx, http.MethodGet, path, "", nil, &content); isNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return content, nil
}
