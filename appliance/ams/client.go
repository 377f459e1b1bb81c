package ams

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/time/rate"

	"landfall/appliance/ams/outbox"
)

const accountsRoot = "/api/accounts_mgmt/v1"

// Client calls AMS. It never follows redirects, sends its token only to the configured host, and
// accepts only the requested object as an answer. After [Client.Open] it changes AMS only with
// credentials of the account that opened the session.
type Client struct {
	base     string
	exchange *exchange
	tokens   *tokens
	clock    clockwork.Clock
	log      *slog.Logger
	limiter  *rate.Limiter
	watch    func(Call)

	mu   sync.Mutex
	skew time.Duration // AMS's clock minus the local clock

	sessionLock sync.Mutex // held while the account of an access token is read
	account     Account    // account of the session; empty before Open
	verified    string     // access token that belongs to account
}

// Call is a finished call, for metrics and the journal.
type Call struct {
	Op          string
	Status      int // 0 if there was no answer
	Took        time.Duration
	OperationID string
}

// ClientOptions configures a client.
type ClientOptions struct {
	URL         string // URL of the API, without a path
	TokenURL    string
	Transport   http.RoundTripper
	Credentials Credentials
	Limits      Limits
	Rate        float64 // calls per second; 0 for no limit
	UserAgent   string
	Clock       clockwork.Clock
	Logger      *slog.Logger
	Watch       func(Call) // called after each finished call; may be nil
}

// NewClient returns a client. It makes no call yet.
func NewClient(options ClientOptions) *Client {
	x := newExchange(options.Transport, options.UserAgent, options.Limits)
	limit := rate.Inf
	if options.Rate > 0 {
		limit = rate.Limit(options.Rate)
	}
	watch := options.Watch
	if watch == nil {
		watch = func(Call) {}
	}
	return &Client{
		base: strings.TrimRight(options.URL, "/"), exchange: x, clock: options.Clock, log: options.Logger, watch: watch,
		limiter: rate.NewLimiter(limit, 1),
		tokens:  &tokens{url: options.TokenURL, exchange: x, source: options.Credentials, clock: options.Clock},
	}
}

// Skew returns AMS's clock minus the local clock, according to the last answer.
func (c *Client) Skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

// TokenUntil returns the expiry time of the access token, or the zero time without a token.
func (c *Client) TokenUntil() time.Time { return c.tokens.validUntil() }

// pace waits until the rate limit allows another call.
func (c *Client) pace(ctx context.Context) error {
	delay := c.limiter.ReserveN(c.clock.Now(), 1).DelayFrom(c.clock.Now())
	if delay <= 0 {
		return ctx.Err()
	}
	select {
	case <-c.clock.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// withToken calls send with an access token. If AMS rejects the token, withToken calls send once
// more with a new token.
func (c *Client) withToken(ctx context.Context, send func(token string) error) error {
	for rejected := ""; ; {
		token, err := c.tokens.get(ctx, rejected)
		if err != nil {
			return err
		}
		err = send(token)
		if failure, ok := errors.AsType[*CallError](err); ok && failure.HTTP == http.StatusUnauthorized &&
			rejected == "" {
			rejected = token
			continue
		}
		return err
	}
}

// call sends a request to AMS, with a token of the session's account.
func (c *Client) call(ctx context.Context, op, method, path string, body any) (*answer, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode the request to AMS: %w", err)
		}
	}
	var got *answer
	err := c.withToken(ctx, func(token string) (err error) {
		if err := c.verify(ctx, token); err != nil {
			return err
		}
		got, err = c.send(ctx, op, method, path, token, text)
		return err
	})
	return got, err
}

// verify returns an error if an access token does not belong to the account of the session. It
// reads the account of each new token once.
func (c *Client) verify(ctx context.Context, token string) error {
	c.sessionLock.Lock()
	defer c.sessionLock.Unlock()
	if c.account == (Account{}) || token == c.verified {
		return nil
	}
	account, err := c.readAccount(ctx, token)
	if err != nil {
		return err
	}
	if was := c.account; account.ID != was.ID || account.Username != was.Username ||
		account.OrganizationID != was.OrganizationID {
		return &CallError{Class: CredentialsChanged, Op: "account",
			Text: fmt.Sprintf("The credentials for AMS belong to the account %s now, and to %s before.",
				account.Username, was.Username)}
	}
	c.verified = token
	return nil
}

// send sends a request with an access token. Its error is a *CallError if the answer is not a
// success.
func (c *Client) send(ctx context.Context, op, method, path, token string, body []byte) (*answer, error) {
	if err := c.pace(ctx); err != nil {
		return nil, err
	}
	operation := rand.Text()
	header := http.Header{"Authorization": {"Bearer " + token}, "X-Operation-Id": {operation}}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	start := c.clock.Now()
	got, err := c.exchange.send(ctx, op, method, c.base+path, header, body)
	done := Call{Op: op, Took: c.clock.Since(start), OperationID: operation}
	if err == nil {
		done.Status = got.status
		if date, err := http.ParseTime(got.header.Get("Date")); err == nil {
			c.mu.Lock()
			c.skew = date.Sub(c.clock.Now()).Round(time.Second)
			c.mu.Unlock()
		}
	}
	c.watch(done)
	c.log.DebugContext(ctx, "Call to AMS completed.", "op", op, "status", done.Status, "operation", operation, "error",
		err)
	if err != nil {
		return nil, err
	}
	return got, c.check(op, got)
}

// check returns a *CallError unless the HTTP status is a success.
func (c *Client) check(op string, got *answer) error {
	if got.status >= 200 && got.status < 300 {
		return nil
	}
	failure := &CallError{Op: op, HTTP: got.status}
	var shape struct {
		Kind        string `json:"kind"`
		Code        string `json:"code"`
		Reason      string `json:"reason"`
		OperationID string `json:"operation_id"`
		Details     []struct {
			Kind string `json:"kind"`
		} `json:"details"`
		ExcessResources []json.RawMessage `json:"excess_resources"`
	}
	if got.object && json.Unmarshal(got.body, &shape) == nil {
		failure.Code, failure.OperationID = shape.Code, shape.OperationID
		failure.Quota = len(shape.ExcessResources) > 0 || len(shape.Details) > 0 &&
			shape.Details[0].Kind == "ExcessResources"
	}
	failure.RetryAfter = retryAfter(got.header.Get("Retry-After"), c.clock.Now())
	failure.Class = classOf(got, shape.Kind == "Error" || failure.Quota)
	failure.Banned = failure.Class == Forbidden && strings.HasSuffix(failure.Code, "-22")
	failure.Text = describe(got.status, failure, shape.Reason)
	if failure.Class == Unauthorized {
		failure.Text += " " + c.tokens.source.Remedy()
	}
	return failure
}

// classOf returns the class of a failed call. own reports whether the body is an error object of
// the called service. Gateways answer without a body, or with JSON of their own.
func classOf(got *answer, own bool) Class {
	switch {
	case got.status < 400, got.status == http.StatusNetworkAuthenticationRequired,
		got.status == http.StatusProxyAuthRequired:
		return Intercepted
	case got.status == http.StatusRequestTimeout, got.status == http.StatusTooEarly,
		got.status >= 500 && got.status != http.StatusNotImplemented:
		return Failing
	case got.status == http.StatusTooManyRequests:
		return Throttled
	case !got.object && len(got.body) > 0:
		return Intercepted
	}
	switch got.status {
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return Unsupported
	}
	if !own {
		return Intercepted
	}
	switch got.status {
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound, http.StatusGone:
		return Missing
	case http.StatusConflict:
		return Conflict
	}
	return Refused
}

func describe(status int, failure *CallError, reason string) string {
	switch {
	case failure.Class == Intercepted:
		return fmt.Sprintf("A server other than AMS answered (HTTP %d in a foreign format); check for a captive "+
			"portal or a proxy's page.", status)
	case reason != "":
		return strings.TrimSuffix(reason, ".") + "."
	}
	return fmt.Sprintf("AMS answered %d %s without an error text.", status, http.StatusText(status))
}

// longestWait is the longest wait that an answer of AMS can cause.
const longestWait = time.Hour

// retryAfter parses both forms of the Retry-After header. It returns 0 if the header is missing.
func retryAfter(text string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longestWait)
}

// intercepted returns the error for a success whose body is not the requested object.
func intercepted(op string, got *answer) *CallError {
	return &CallError{Class: Intercepted, Op: op, HTTP: got.status, Text: describe(got.status,
		&CallError{Class: Intercepted}, "")}
}

// wireRow has the fields of a subscription that Landfall uses. The raw JSON keeps the other fields.
type wireRow struct {
	ID                string `json:"id"`
	Kind              string `json:"kind"`
	Status            string `json:"status"`
	ClusterID         string `json:"cluster_id"`
	ExternalClusterID string `json:"external_cluster_id"`
	OrganizationID    string `json:"organization_id"`
	DisplayName       string `json:"display_name"`
	ConsoleURL        string `json:"console_url"`
	Plan              struct {
		Category string `json:"category"`
		ID       string `json:"id"`
	} `json:"plan"`
	Creator struct {
		ID string `json:"id"`
	} `json:"creator"`
}

func readRow(raw json.RawMessage) (Row, bool) {
	var wire wireRow
	if json.Unmarshal(raw, &wire) != nil || wire.ID == "" || wire.Kind != "" && wire.Kind != "Subscription" {
		return Row{}, false
	}
	category := wire.Plan.Category
	if category == "" && strings.HasSuffix(wire.Plan.ID, assistedInstall) {
		category = assistedInstall
	}
	return Row{
		ID: wire.ID, Status: wire.Status, ClusterID: wire.ClusterID, ExternalClusterID: wire.ExternalClusterID,
		OrganizationID: wire.OrganizationID,
		CreatorID:      wire.Creator.ID, PlanCategory: category, DisplayName: wire.DisplayName,
		ConsoleURL: wire.ConsoleURL,
		Raw:        raw,
	}, true
}

// Account is the owner of the credentials.
type Account struct {
	ID             string
	Username       string
	OrganizationID string
	Organization   string // name of the organization
}

// Open begins a session: it reads the owner of the credentials. Until the next Open, calls with
// the credentials of another account fail with the class [CredentialsChanged].
func (c *Client) Open(ctx context.Context) (Account, error) {
	c.sessionLock.Lock()
	defer c.sessionLock.Unlock()
	err := c.withToken(ctx, func(token string) error {
		account, err := c.readAccount(ctx, token)
		if err == nil {
			c.account, c.verified = account, token
		}
		return err
	})
	if err != nil {
		return Account{}, err
	}
	return c.account, nil
}

// readAccount reads the owner of an access token.
func (c *Client) readAccount(ctx context.Context, token string) (Account, error) {
	got, err := c.send(ctx, "account", http.MethodGet, accountsRoot+"/current_account", token, nil)
	if err != nil {
		return Account{}, err
	}
	var wire struct {
		ID             string `json:"id"`
		Username       string `json:"username"`
		OrganizationID string `json:"organization_id"`
		Organization   struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"organization"`
	}
	if !got.object || json.Unmarshal(got.body, &wire) != nil || wire.Username == "" {
		return Account{}, intercepted("account", got)
	}
	if wire.OrganizationID == "" {
		wire.OrganizationID = wire.Organization.ID
	}
	return Account{wire.ID, wire.Username, wire.OrganizationID, wire.Organization.Name}, nil
}

// Get reads a subscription. It returns nil if the subscription does not exist.
func (c *Client) Get(ctx context.Context, id string) (*Row, error) {
	got, err := c.call(ctx, "get", http.MethodGet, accountsRoot+"/subscriptions/"+url.PathEscape(id), nil)
	if failure, ok := errors.AsType[*CallError](err); ok && failure.Class == Missing {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row, ok := readRow(got.body)
	if !got.object || !ok || row.ID != id {
		return nil, intercepted("get", got)
	}
	if row.Status == statusDeprovisioned {
		return nil, nil
	}
	return &row, nil
}

// Search finds the subscriptions with the cluster's ID or, if it is not empty, with the cluster's
// own external ID. It leaves out deprovisioned subscriptions.
func (c *Client) Search(ctx context.Context, clusterID, externalID string) ([]Row, error) {
	search := "cluster_id = '" + clusterID + "'"
	if externalID != "" {
		search += " or external_cluster_id = '" + externalID + "'"
	}
	query := url.Values{"search": {search}, "size": {"20"}}
	got, err := c.call(ctx, "search", http.MethodGet, accountsRoot+"/subscriptions?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if !got.object || json.Unmarshal(got.body, &list) != nil || list.Kind != "SubscriptionList" {
		return nil, intercepted("search", got)
	}
	rows := []Row{}
	for _, raw := range list.Items {
		row, ok := readRow(raw)
		if !ok {
			return nil, intercepted("search", got)
		}
		if row.Status != statusDeprovisioned {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Create requests a subscription for a new cluster. The returned row may contain only the ID.
func (c *Client) Create(ctx context.Context, account, clusterID, displayName string) (*Row, error) {
	got, err := c.call(ctx, "create", http.MethodPost, accountsRoot+"/cluster_authorizations", map[string]any{
		"account_username": account, "product_category": assistedInstall, "product_id": "OCP", "cluster_id": clusterID,
		"display_name": displayName, "managed": false, "resources": []any{}, "reserve": true,
	})
	if err != nil {
		return nil, err
	}
	var wire struct {
		Allowed         *bool             `json:"allowed"`
		ExcessResources []json.RawMessage `json:"excess_resources"`
		Subscription    json.RawMessage   `json:"subscription"`
	}
	if !got.object || json.Unmarshal(got.body, &wire) != nil {
		return nil, intercepted("create", got)
	}
	if wire.Allowed != nil && !*wire.Allowed {
		return nil, &CallError{Class: Forbidden, Op: "create", HTTP: got.status, Quota: true,
			Text: fmt.Sprintf("AMS does not allow the cluster: the quota lacks %s.",
				resourceNames(wire.ExcessResources))}
	}
	row, ok := readRow(wire.Subscription)
	if !ok {
		return nil, &CallError{Class: Failing, Op: "create", HTTP: got.status,
			Text: "AMS answered without a subscription, which it may have created."}
	}
	return &row, nil
}

func resourceNames(resources []json.RawMessage) string {
	if len(resources) == 0 {
		return "an unnamed resource"
	}
	text, err := json.Marshal(resources)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Update sends the non-empty fields of a subscription and, if it is not empty, the status.
func (c *Client) Update(ctx context.Context, id string, fields outbox.Fields, status string) (*Row, error) {
	body := struct {
		Kind string `json:"kind"`
		outbox.Fields
		Status string `json:"status,omitempty"`
	}{"Subscription", fields, status}
	got, err := c.call(ctx, "update", http.MethodPatch, accountsRoot+"/subscriptions/"+url.PathEscape(id), body)
	if err != nil {
		return nil, err
	}
	row, ok := readRow(got.body)
	if !got.object || !ok || row.ID != id {
		return nil, intercepted("update", got)
	}
	return &row, nil
}

// Delete deletes a subscription. It succeeds if the subscription does not exist.
func (c *Client) Delete(ctx context.Context, id string) error {
	got, err := c.call(ctx, "delete", http.MethodDelete, accountsRoot+"/subscriptions/"+url.PathEscape(id), nil)
	if failure, ok := errors.AsType[*CallError](err); ok && failure.Class == Missing {
		return nil
	}
	if err != nil {
		return err
	}
	if !got.object && len(got.body) > 0 {
		return intercepted("delete", got)
	}
	return nil
}
