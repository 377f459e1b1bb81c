package redfish

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const root = "/redfish/v1"

// sessionRequests is the number of requests after which a session ends, with the fault SessionEnds.
const sessionRequests = 6

// refusal is an error response.
type refusal struct {
	status     int
	id, text   string
	retryAfter int // in seconds
}

func refuse(status int, id, format string, args ...any) *refusal {
	return &refusal{status: status, id: id, text: fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (b *BMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.has(Slow) {
		select {
		case <-b.clock.After(30 * time.Second):
		case <-r.Context().Done():
			return
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	b.mu.Lock()
	b.requests = append(b.requests, r.Method+" "+r.URL.Path)
	away := b.clock.Now().Before(b.unpoweredUntil)
	broken := b.strikes(Reset, 3, 7, 11)
	b.mu.Unlock()
	if away || broken {
		b.breakOff(w)
		return
	}
	if b.has(Clock1970) {
		w.Header().Set("Date", time.Unix(b.clock.Now().Unix()%86400, 0).UTC().Format(http.TimeFormat))
	}
	if b.has(NotRedfish) || b.has(WebPage) {
		w.Header().Set("Content-Type", "text/html")
		if b.has(NotRedfish) {
			w.WriteHeader(http.StatusNotFound)
		}
		b.write(w, []byte("<html><title>Printer</title><h1>Not here</h1></html>"))
		return
	}
	answer, status, denied := b.answer(w, r, body)
	if denied != nil {
		if denied.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(denied.retryAfter))
		}
		status = denied.status
		info := map[string]any{"MessageId": "Base.1.12." + denied.id, "Message": denied.text, "Severity": "Critical",
			"MessageArgs": []any{}, "Resolution": "None."}
		if strings.ContainsAny(denied.id, ".") {
			info["MessageId"] = denied.id
		}
		failed := map[string]any{"code": "Base.1.12.GeneralError",
			"message":               "A general error has occurred. See ExtendedInfo for more information.",
			"@Message.ExtendedInfo": []any{info}}
		if b.options.Profile.Vague {
			failed = map[string]any{"code": "Base.1.12.GeneralError", "message": denied.text}
		}
		if b.options.Profile.NoInfo {
			failed["message"] = denied.text
			failed["@Message.ExtendedInfo"] = []any{map[string]any{"MessageId": "Base.1.12.GeneralError"}}
		}
		answer = map[string]any{"error": failed}
	}
	if answer == nil {
		w.WriteHeader(status)
		return
	}
	text, err := json.Marshal(answer)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	if tag, ok := answer["@odata.etag"].(string); ok {
		w.Header().Set("ETag", tag)
	}
	w.WriteHeader(status)
	b.write(w, text)
}

// breakOff closes the connection without a response.
func (b *BMC) breakOff(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		err = connection.Close()
	}
	if err != nil {
		b.log.Error("A simulated BMC could not close a connection.", "error", err)
	}
}

func (b *BMC) write(w io.Writer, text []byte) {
	if _, err := w.Write(text); err != nil {
		b.log.Debug("A client of a simulated BMC closed its connection.", "error", err)
	}
}

// strikes returns true for the given occurrences of a set fault. The caller holds the mutex.
func (b *BMC) strikes(fault Fault, times ...int) bool {
	if !b.has(fault) {
		return false
	}
	b.counts[string(fault)]++
	return slices.Contains(times, b.counts[string(fault)])
}

// answer returns the response to a request: a body (nil for none) and a status, or a refusal.
func (b *BMC) answer(w http.ResponseWriter, r *http.Request, body []byte) (map[string]any, int, *refusal) {
	path := strings.TrimRight(r.URL.Path, "/")
	if path == root && r.Method == http.MethodGet {
		return b.serviceRoot(), http.StatusOK, nil
	}
	if path == root+"/SessionService/Sessions" && r.Method == http.MethodPost {
		return b.login(w, body)
	}
	if denied := b.authorize(r); denied != nil {
		return nil, 0, denied
	}
	if session, ok := strings.CutPrefix(path, root+"/SessionService/Sessions/"); ok && r.Method == http.MethodDelete {
		b.mu.Lock()
		defer b.mu.Unlock()
		for token := range b.sessions {
			if strings.HasPrefix(token, session) {
				delete(b.sessions, token)
			}
		}
		return nil, http.StatusNoContent, nil
	}
	fields := map[string]any{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &fields); err != nil {
			return nil, 0, refuse(http.StatusBadRequest, "MalformedJSON", "The request body was malformed JSON.")
		}
	}
	switch r.Method {
	case http.MethodGet:
		b.mu.Lock()
		defer b.mu.Unlock()
		found := b.resource(path)
		if found == nil {
			return nil, 0, refuse(http.StatusNotFound, "ResourceMissingAtURI",
				"The resource at the URI '%s' was not found.", path)
		}
		if state, ok := found["TaskState"]; ok && (state == "Running" || state == "New") {
			return found, http.StatusAccepted, nil
		}
		return found, http.StatusOK, nil
	case http.MethodPost:
		return b.act(w, r, path, fields, len(body) > 0)
	case http.MethodPatch:
		return b.change(w, r, path, fields)
	}
	return nil, 0, refuse(http.StatusMethodNotAllowed, "OperationNotAllowed",
		"The HTTP method is not allowed on this resource.")
}

func (b *BMC) login(w http.ResponseWriter, body []byte) (map[string]any, int, *refusal) {
	if b.options.Profile.NoSessions {
		return nil, 0, refuse(http.StatusNotFound, "ResourceMissingAtURI", "The resource was not found.")
	}
	if b.has(NoSessionService) {
		return nil, 0, refuse(http.StatusMethodNotAllowed, "OperationNotAllowed",
			"The HTTP method is not allowed on this resource.")
	}
	if b.has(SessionsFull) {
		return nil, 0, b.sessionsFull()
	}
	var given struct{ UserName, Password string }
	if err := json.Unmarshal(body, &given); err != nil || given.UserName != b.options.Username ||
		given.Password != b.options.Password || b.has(WrongPassword) {
		return nil, 0, unauthorized()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	token := rand.Text()
	b.sessions[token] = -1
	if b.has(SessionEnds) && b.counts["sessions"] == 0 {
		b.sessions[token] = sessionRequests
	}
	b.counts["sessions"]++
	b.tokens, b.mostSessions = append(b.tokens, token), max(b.mostSessions, len(b.sessions))
	path := root + "/SessionService/Sessions/" + token[:8]
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", path)
	return map[string]any{"@odata.id": path, "@odata.type": "#Session.v1_3_0.Session", "Id": token[:8],
		"UserName": given.UserName}, http.StatusCreated, nil
}

func (b *BMC) sessionsFull() *refusal {
	return refuse(http.StatusServiceUnavailable, "IDRAC.2.8.RAC0218", "The maximum number of user sessions is reached.")
}

func unauthorized() *refusal {
	return refuse(http.StatusUnauthorized, "InsufficientPrivilege",
		"There are insufficient privileges for the account or credentials associated with the current session.")
}

func (b *BMC) authorize(r *http.Request) *refusal {
	if user, password, ok := r.BasicAuth(); ok {
		if b.has(SessionsFull) {
			return b.sessionsFull()
		}
		if user != b.options.Username || password != b.options.Password || b.has(WrongPassword) {
			return unauthorized()
		}
		return b.allowed(r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	token := r.Header.Get("X-Auth-Token")
	left, ok := b.sessions[token]
	if !ok || left == 0 {
		delete(b.sessions, token)
		return unauthorized()
	}
	if left > 0 {
		b.sessions[token] = left - 1
	}
	return b.allowed(r)
}

func (b *BMC) allowed(r *http.Request) *refusal {
	if b.has(ReadOnly) && r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/Sessions/") {
		return refuse(http.StatusForbidden, "InsufficientPrivilege",
			"There are insufficient privileges for the account.")
	}
	return nil
}

// tagged checks the ETag of a change. The caller holds the mutex.
func (b *BMC) tagged(r *http.Request, path string) *refusal {
	named := r.Header.Get("If-Match")
	if b.strikes(Tag412, 1) {
		b.versions[path]++
		return refuse(http.StatusPreconditionFailed, "PreconditionFailed",
			"The ETag supplied did not match the current ETag of the resource.")
	}
	if named == "" && (b.has(Tag428) || b.options.Profile.StrictTags) {
		return refuse(http.StatusPreconditionRequired, "PreconditionRequired",
			"A precondition header or annotation is required to change this resource.")
	}
	if named != "" && named != b.tag(path) {
		return refuse(http.StatusPreconditionFailed, "PreconditionFailed",
			"The ETag supplied did not match the current ETag of the resource.")
	}
	return nil
}

func (b *BMC) tag(path string) string { return fmt.Sprintf(`W/"%d"`, b.versions[path]+1) }

// hindered returns a refusal that applies to every change, or nil. The caller holds the mutex.
func (b *BMC) hindered() *refusal {
	if b.strikes(Busy503, 1, 2) {
		return &refusal{http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable",
			"The service is temporarily unavailable. Retry in 10 seconds.", 10}
	}
	if b.strikes(NotReady, 1, 2) {
		return refuse(http.StatusInternalServerError, "IDRAC.2.8.SYS518",
			"iDRAC is not ready. The configuration values cannot be accessed.")
	}
	return nil
}
