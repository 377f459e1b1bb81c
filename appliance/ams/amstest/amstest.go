// Package amstest is a test server for OpenShift Cluster Manager's account service (AMS) and its
// token endpoint.
//
// The server simulates the life cycle of subscriptions (Reserved, Active, Stale, Archived) and
// subscriptions that metrics create or update. It answers in the formats of AMS and of the SDK's
// schema, and fails as a test requests. [Switches] select undocumented behaviour of AMS. The server
// is an http.Handler: tests serve it over TCP and TLS, or call it in memory with [Transport].
package amstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/segmentio/ksuid"
)

// Root is the root path of AMS's API.
const Root = "/api/accounts_mgmt/v1"

// TokenPath is the path of the token endpoint.
const TokenPath = "/auth/realms/redhat-external/protocol/openid-connect/token"

// Account is a person or a service account with its organization.
type Account struct {
	ID, Username, Organization, OrganizationName string
}

// Switches select behaviour that is not documented or differs between AMS's schemas.
type Switches struct {
	RepeatMakesAnother bool          // a repeated POST of a cluster by the same account creates a second row
	RepeatConflicts    bool          // a repeated POST is refused
	Tombstones         bool          // a deleted row stays with the status Deprovisioned
	RefuseDisconnected bool          // a PATCH to Disconnected is refused
	FullAnswers        bool          // the answer to POST contains the whole subscription, not a reference
	SDKStatuses        bool          // 201 for POST and 204 for DELETE
	SearchLag          time.Duration // time until a search finds a new row
	Ageing             bool          // rows without metrics become Stale and Archived
	Rotate             bool          // each refresh issues another refresh token
	Allowed            func(clusterID string) bool
	ForbiddenFields    []string
}

// Request is a received call.
type Request struct {
	Op     string // token, account, search, get, create, update, delete, other
	Method string
	Path   string
	Query  url.Values
	Body   []byte
	Header http.Header
	At     time.Time
}

// Server is the test server.
type Server struct {
	Switches
	clock clockwork.Clock

	mu       sync.Mutex
	rows     map[string]map[string]any
	made     map[string]time.Time // creation times of the rows
	of       map[string][]string  // IDs of all rows that a cluster ever had
	gone     []map[string]any
	ever     map[string]bool // rows that had another status than Reserved
	deleted  []string        // IDs of deleted rows
	owners   map[string]string
	requests []Request
	faults   []*Fault
	accounts map[string]Account // by user name
	offline  map[string]string  // token to user name
	clients  map[string][2]string
	access   map[string]session
	serial   uint64
}

type session struct {
	username string
	until    time.Time
}

// New returns a server without accounts.
func New(clock clockwork.Clock) *Server {
	return &Server{
		clock: clock, rows: map[string]map[string]any{}, made: map[string]time.Time{}, of: map[string][]string{},
		ever: map[string]bool{}, owners: map[string]string{},
		accounts: map[string]Account{}, offline: map[string]string{}, clients: map[string][2]string{},
		access: map[string]session{},
	}
}

func (s *Server) now() string { return s.clock.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

// id returns a new, unique KSUID.
func (s *Server) id() string {
	s.serial++
	payload := sha256.Sum256(binary.BigEndian.AppendUint64(nil, s.serial))
	made, err := ksuid.FromParts(s.clock.Now(), payload[:16])
	if err != nil {
		panic(err)
	}
	return made.String()
}

// jwt returns a token in the format of a JWT. The server does not check signatures.
func (s *Server) jwt(kind, username string, life time.Duration) string {
	s.serial++
	claims := map[string]any{"typ": kind, "username": username, "jti": strconv.FormatUint(s.serial, 10),
		"iat": s.clock.Now().Unix(), "iss": "amstest"}
	if life > 0 {
		claims["exp"] = s.clock.Now().Add(life).Unix()
	}
	part := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]string{"alg": "HS256", "typ": "JWT"}) + "." + part(claims) + "." + part("signature")
}

// AddAccount adds an account and returns an offline token for it.
func (s *Server) AddAccount(account Account) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[account.Username] = account
	token := s.jwt("Offline", account.Username, 0)
	s.offline[token] = account.Username
	return token
}

// AddClient adds the ID and secret of a service account.
func (s *Server) AddClient(username, id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = [2]string{secret, username}
}

// Revoke invalidates all tokens. AddAccount issues new ones.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.offline)
	clear(s.access)
}

// ExpireAccess expires all access tokens.
func (s *Server) ExpireAccess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// Requests returns the received calls. With ops, it returns only the calls of these ops.
func (s *Server) Requests(ops ...string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, r := range s.requests {
		if len(ops) == 0 || slices.Contains(ops, r.Op) {
			found = append(found, r)
		}
	}
	return found
}

// ClearRequests clears the list of received calls.
func (s *Server) ClearRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// Rows returns copies of the existing subscriptions by ID.
func (s *Server) Rows() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age()
	var rows []map[string]any
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		rows = append(rows, maps.Clone(s.rows[id]))
	}
	return rows
}

// RowsOf returns the subscriptions of a cluster.
func (s *Server) RowsOf(clusterID string) []map[string]any {
	return slices.DeleteFunc(s.Rows(), func(row map[string]any) bool { return row["cluster_id"] != clusterID })
}

// WrongDeletes returns the deleted rows that had another status than Reserved.
func (s *Server) WrongDeletes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.deleted), func(id string) bool { return !s.ever[id] })
}

// Edit changes a row as a person does in OCM. An empty status and nil fields stay unchanged.
func (s *Server) Edit(id string, fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.rows[id]
	if !ok {
		panic("there is no subscription " + id)
	}
	maps.Copy(row, fields)
	if cluster, ok := fields["cluster_id"].(string); ok {
		s.of[cluster] = append(s.of[cluster], id)
	}
	row["updated_at"] = s.now()
	s.note(id)
}

// Remove deletes a row as a person does in OCM.
func (s *Server) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markDeleted(id)
}

// Make creates a row of a cluster on behalf of another client.
func (s *Server) Make(username, clusterID, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(s.accounts[username], clusterID, name)["id"].(string)
}

// Report delivers a cluster's metrics. They update the row with the external ID or create a row.
func (s *Server) Report(externalID, username string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found map[string]any
	for _, row := range s.rows {
		if row["external_cluster_id"] == externalID {
			found = row
		}
	}
	if found == nil {
		account := s.accounts[username]
		found = s.create(account, s.id(), "")
		delete(found, "display_name")
		found["external_cluster_id"], found["status"], found["provenance"] = externalID, "Active", "Telemetry"
		found["plan"] = map[string]any{"id": "OCP", "kind": "Plan", "href": Root + "/plans/OCP", "type": "OCP"}
	}
	if found["status"] == "Stale" {
		found["status"] = "Active"
	}
	found["last_telemetry_date"], found["metrics"] = s.now(), []any{metrics(s.now())}
	s.note(found["id"].(string))
}

func metrics(now string) map[string]any {
	value := func(used, total float64, unit string) map[string]any {
		return map[string]any{"updated_timestamp": now, "used": map[string]any{"value": used, "unit": unit},
			"total": map[string]any{"value": total, "unit": unit}}
	}
	return map[string]any{
		"health_state": "healthy", "query_timestamp": now, "memory": value(23618293760, 52269928448, "B"),
		"cpu":   value(2.99952380952381, 12, ""),
		"nodes": map[string]any{"total": 3.0, "master": 3.0}, "openshift_version": "4.19.3",
		"cloud_provider": "baremetal", "state": "ready",
		"upgrade": map[string]any{"updated_timestamp": now, "available": true}, "subscription_obligation_exists": 1.0,
		"cluster_type": "",
	}
}

// note records rows that had another status than Reserved.
func (s *Server) note(id string) {
	if s.rows[id]["status"] != "Reserved" {
		s.ever[id] = true
	}
}

const never = "0001-01-01T00:00:00Z"

func (s *Server) create(account Account, clusterID, name string) map[string]any {
	id := s.id()
	row := map[string]any{
		"id": id, "kind": "Subscription", "href": Root + "/subscriptions/" + id,
		"plan": map[string]any{"id": "OCP-AssistedInstall", "kind": "Plan",
			"href": Root + "/plans/OCP-AssistedInstall", "type": "OCP", "category": "AssistedInstall"},
		"cluster_id": clusterID, "organization_id": account.Organization, "last_telemetry_date": never,
		"created_at": s.now(), "updated_at": s.now(),
		"support_level": "Eval", "display_name": name, "managed": false, "status": "Reserved",
		"provenance": "Provisioning",
		"creator": map[string]any{"id": account.ID, "kind": "Account", "href": Root + "/accounts/" +
			account.ID, "username": account.Username},
		"last_reconcile_date": never, "last_released_at": never, "cloud_provider_id": "baremetal",
		"trial_end_date":        never,
		"eval_expiration_date":  s.clock.Now().AddDate(0, 0, 60).UTC().Format(time.RFC3339),
		"cluster_billing_model": "standard",
	}
	s.rows[id], s.made[id], s.owners[clusterID] = row, s.clock.Now(), account.Username
	s.of[clusterID] = append(s.of[clusterID], id)
	return row
}

func (s *Server) markDeleted(id string) {
	if s.Tombstones {
		s.rows[id]["status"] = "Deprovisioned"
		return
	}
	s.gone = append(s.gone, s.rows[id])
	delete(s.rows, id)
}

// Periods of AMS's ageing. The real ones are not public.
const (
	staleAfter    = 24 * time.Hour
	archivedAfter = 30 * 24 * time.Hour
)

func (s *Server) age() {
	if !s.Ageing {
		return
	}
	for _, row := range s.rows {
		last, err := time.Parse(time.RFC3339Nano, row["last_telemetry_date"].(string))
		if err != nil || last.Year() < 2 {
			if last, err = time.Parse(time.RFC3339Nano, row["updated_at"].(string)); err != nil {
				panic(err)
			}
		}
		age := s.clock.Now().Sub(last)
		switch {
		case age > archivedAfter && (row["status"] == "Active" || row["status"] == "Stale"):
			row["status"] = "Archived"
		case age > staleAfter && row["status"] == "Active":
			row["status"] = "Stale"
		}
	}
}

// ServeHTTP answers a call. It applies the faults that a test requested.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := Request{opOf(r), r.Method, r.URL.Path, r.URL.Query(), body, r.Header.Clone(), s.clock.Now()}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	fault := s.faultFor(request)
	s.mu.Unlock()
	if fault == nil {
		s.serve(w, r, request)
		return
	}
	fault.Do(w, r, func(w http.ResponseWriter) { s.serve(w, r, request) })
}

func opOf(r *http.Request) string {
	path := strings.TrimPrefix(r.URL.Path, Root)
	id, one := strings.CutPrefix(path, "/subscriptions/")
	one = one && !strings.Contains(id, "/")
	switch {
	case r.URL.Path == TokenPath:
		return "token"
	case path == "/current_account":
		return "account"
	case path == "/cluster_authorizations":
		return "create"
	case path == "/subscriptions" && r.Method == http.MethodGet:
		return "search"
	case one && r.Method == http.MethodGet:
		return "get"
	case one && r.Method == http.MethodPatch:
		return "update"
	case one && r.Method == http.MethodDelete:
		return "delete"
	}
	return "other"
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, request Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age()
	w.Header().Set("Date", s.clock.Now().UTC().Format(http.TimeFormat))
	if request.Op == "token" {
		s.token(w, r, request)
		return
	}
	account, ok := s.caller(r)
	if !ok {
		s.fail(w, http.StatusUnauthorized, 15, "The token is not valid")
		return
	}
	id := strings.TrimPrefix(r.URL.Path, Root+"/subscriptions/")
	switch request.Op {
	case "account":
		reply(w, http.StatusOK, accountObject(account))
	case "create":
		s.authorize(w, account, request.Body)
	case "search":
		s.search(w, account, request.Query)
	case "get":
		if row := s.visible(account, id); row != nil {
			reply(w, http.StatusOK, row)
			return
		}
		s.fail(w, http.StatusNotFound, 7, "Subscription with id='"+id+"' not found")
	case "update":
		s.patch(w, account, id, request.Body)
	case "delete":
		s.delete(w, account, id)
	default:
		s.others(w, account, r, request)
	}
}

func accountObject(a Account) map[string]any {
	return map[string]any{
		"id": a.ID, "kind": "Account", "href": Root + "/accounts/" + a.ID, "username": a.Username,
		"organization_id": a.Organization,
		"organization":    organizationObject(a), "first_name": "A", "last_name": "Person",
		"email": a.Username + "@example.com",
	}
}

func organizationObject(a Account) map[string]any {
	return map[string]any{"id": a.Organization, "kind": "Organization", "href": Root + "/organizations/" +
		a.Organization, "name": a.OrganizationName}
}

func (s *Server) caller(r *http.Request) (Account, bool) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	held, ok := s.access[token]
	return s.accounts[held.username], ok && s.clock.Now().Before(held.until)
}

func (s *Server) visible(account Account, id string) map[string]any {
	row := s.rows[id]
	if row == nil || row["organization_id"] != account.Organization {
		return nil
	}
	return row
}

func reply(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) fail(w http.ResponseWriter, status, code int, reason string) {
	reply(w, status, problem(status, code, reason, s.id()))
}

func problem(_, code int, reason, operation string) map[string]any {
	return map[string]any{
		"kind": "Error", "id": strconv.Itoa(code), "href": Root + "/errors/" + strconv.Itoa(code),
		"code":   fmt.Sprintf("ACCT-MGMT-%d", code),
		"reason": reason, "operation_id": operation,
	}
}

const accessLife = 15 * time.Minute

func (s *Server) token(w http.ResponseWriter, r *http.Request, request Request) {
	refuse := func(kind string) {
		reply(w, http.StatusBadRequest, map[string]string{"error": kind, "error_description": "refused"})
	}
	form, err := url.ParseQuery(string(request.Body))
	if err != nil {
		refuse("invalid_request")
		return
	}
	var username, refresh string
	switch form.Get("grant_type") {
	case "refresh_token":
		refresh = form.Get("refresh_token")
		if username = s.offline[refresh]; username == "" || form.Get("client_id") == "" {
			refuse("invalid_grant")
			return
		}
		if s.Rotate {
			delete(s.offline, refresh)
			refresh = s.jwt("Offline", username, 0)
			s.offline[refresh] = username
		}
	case "client_credentials":
		id, secret, _ := r.BasicAuth()
		if id == "" {
			id, secret = form.Get("client_id"), form.Get("client_secret")
		}
		held, ok := s.clients[id]
		if !ok || held[0] != secret {
			reply(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized_client",
				"error_description": "Invalid client secret"})
			return
		}
		username = held[1]
	default:
		refuse("unsupported_grant_type")
		return
	}
	access := s.jwt("Bearer", username, accessLife)
	s.access[access] = session{username, s.clock.Now().Add(accessLife)}
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": accessLife.Seconds(),
		"scope": "openid"}
	if refresh != "" {
		answer["refresh_token"] = refresh
	}
	reply(w, http.StatusOK, answer)
}

func (s *Server) authorize(w http.ResponseWriter, account Account, body []byte) {
	var wanted struct {
		AccountUsername string `json:"account_username"`
		ProductCategory string `json:"product_category"`
		ProductID       string `json:"product_id"`
		ClusterID       string `json:"cluster_id"`
		DisplayName     string `json:"display_name"`
		Reserve         bool   `json:"reserve"`
	}
	if err := json.Unmarshal(body, &wanted); err != nil {
		s.fail(w, http.StatusBadRequest, 17, "The body can not be read")
		return
	}
	if wanted.AccountUsername == "" || wanted.ClusterID == "" || wanted.ProductID != "OCP" ||
		wanted.ProductCategory != "AssistedInstall" || !wanted.Reserve {
		s.fail(w, http.StatusBadRequest, 8,
			"account_username, cluster_id, product_id and product_category are required")
		return
	}
	if s.Allowed != nil && !s.Allowed(wanted.ClusterID) {
		reply(w, http.StatusOK, map[string]any{"allowed": false,
			"excess_resources": []any{map[string]any{"resource_name": "cluster", "count": 1}}})
		return
	}
	var row map[string]any
	for _, id := range s.of[wanted.ClusterID] {
		if held := s.rows[id]; held != nil && held["cluster_id"] == wanted.ClusterID &&
			held["status"] != "Deprovisioned" {
			row = held
		}
	}
	if row != nil && (s.owners[wanted.ClusterID] != account.Username || s.RepeatConflicts) {
		s.fail(w, http.StatusConflict, 6, "The cluster belongs to another account")
		return
	}
	if row == nil || s.RepeatMakesAnother {
		row = s.create(account, wanted.ClusterID, wanted.DisplayName)
	}
	shown := map[string]any{"id": row["id"], "kind": "Subscription", "href": row["href"]}
	if s.FullAnswers {
		shown = row
	}
	status := http.StatusOK
	if s.SDKStatuses {
		status = http.StatusCreated
	}
	reply(w, status, map[string]any{"allowed": true, "excess_resources": []any{},
		"organization_id": account.Organization, "subscription": shown})
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (response *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	defer func() {
		switch reason := recover(); reason {
		case nil:
		case http.ErrAbortHandler:
			response, err = nil, io.ErrUnexpectedEOF
		default:
			panic(reason)
		}
	}()
	t.Handler.ServeHTTP(recorder, r)
	response = recorder.Result()
	response.Request = r
	return response, nil
}
