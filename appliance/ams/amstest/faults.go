package amstest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// Fault is a failure of calls that a test requests.
type Fault struct {
	Op      string // "" for all ops except token
	Cluster string // "" for all clusters
	After   int    // number of matching calls that succeed first
	Times   int    // number of failures; 0 until [Server.Heal]
	Do      func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter))

	used int
}

// Break adds a fault.
func (s *Server) Break(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) faultFor(r Request) *Fault {
	for _, fault := range s.faults {
		if fault.Op == "" && r.Op == "token" || fault.Op != "" && fault.Op != r.Op {
			continue
		}
		if fault.Cluster != "" && !s.concerns(r, fault.Cluster) {
			continue
		}
		if fault.After > 0 {
			fault.After--
			continue
		}
		if fault.Times > 0 && fault.used == fault.Times {
			continue
		}
		fault.used++
		return fault
	}
	return nil
}

// concerns reports whether a call concerns a cluster.
func (s *Server) concerns(r Request, clusterID string) bool {
	row := s.rows[r.Path[strings.LastIndexByte(r.Path, '/')+1:]]
	return strings.Contains(string(r.Body), clusterID) || strings.Contains(r.Query.Get("search"), clusterID) ||
		row != nil && row["cluster_id"] == clusterID
}

type doing = func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter))

// DropBefore breaks the connection before the call is executed.
func DropBefore() doing {
	return func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)) { panic(http.ErrAbortHandler) }
}

// CommitThenDrop executes the call and breaks the connection.
func CommitThenDrop() doing {
	return func(_ http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
		serve(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	}
}

// CutBody executes the call and breaks the connection during the answer.
func CutBody() doing {
	return func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
		whole := httptest.NewRecorder()
		serve(whole)
		body := whole.Body.Bytes()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
		w.WriteHeader(whole.Code)
		if _, err := w.Write(body[:len(body)/2]); err != nil {
			panic(http.ErrAbortHandler)
		}
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// Answer answers instead of AMS, with a status, a content type, a body, and headers in pairs.
func Answer(status int, contentType, body string, headers ...string) doing {
	return func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		if _, err := w.Write([]byte(body)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// Status answers with an error of AMS.
func Status(status, code int, reason string, headers ...string) doing {
	return func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		reply(w, status, problem(status, code, reason, "operation-of-the-fault"))
	}
}

// Empty answers with a status and an empty body.
func Empty(status int, headers ...string) doing { return Answer(status, "", "", headers...) }

// CommitThenAnswer executes the call and sends another answer.
func CommitThenAnswer(status int, contentType, body string) doing {
	return func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) {
		serve(httptest.NewRecorder())
		Answer(status, contentType, body)(w, r, nil)
	}
}

// HTML answers with the page of a captive portal.
func HTML() doing {
	return Answer(http.StatusOK, "text/html", "<html><body>Please log in</body></html>")
}

// Redirect answers with a redirect.
func Redirect(status int, to string) doing { return Empty(status, "Location", to) }

// Skew shifts AMS's clock.
func Skew(by time.Duration, now func() time.Time) doing {
	return func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
		serve(dated{w, now().Add(by).UTC().Format(http.TimeFormat)})
	}
}

type dated struct {
	http.ResponseWriter
	date string
}

func (d dated) WriteHeader(status int) {
	d.Header().Set("Date", d.date)
	d.ResponseWriter.WriteHeader(status)
}

// Drip sends the answer one byte at a time until the caller disconnects.
func Drip(pace time.Duration) doing {
	return func(w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			if _, err := w.Write([]byte(" ")); err != nil {
				return
			}
			if flusher, ok := w.(http.Flusher); ok {
				flusher.Flush()
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// Hang accepts the connection and never answers.
func Hang() doing {
	return func(_ http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) { <-r.Context().Done() }
}
