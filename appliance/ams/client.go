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

// Client calls AMS. It never follows redirects, gives its token to the configured host alone, and
// takes nothing for an answer that is not the object asked for.
type Client struct {
	base     string
	exchange *exchange
	tokens   *tokens
	clock    clockwork.Clock
	log      *slog.Logger
	limiter  *rate.Limiter
	watch    func(Call)

	mu   sync.Mutex
	skew time.Duration // of AMS's clock against ours
}

// Call is a finished call, for metrics and the journal.
type Call struct {
	Op          string
	Status      int // 0: no answer
	Took        time.Duration
	OperationID string
}

// ClientOptions is what a client is made of.
type ClientOptions struct {
	URL         string // of the API, without a path
	TokenURL    string
	Transport   http.RoundTripper
	Credentials Credentials
	Limits      Limits
	Rate        float64 // calls a second; 0: no limit
	UserAgent   string
	Clock       clockwork.Clock
	Logger      *slog.Logger
	Watch       func(Call) // hears of each finished call; may be nil
}

// NewClient returns a client that has not called yet.
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

// Skew is how far AMS's clock is ahead of ours, as its last answer told.
func (c *Client) Skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

// TokenUntil is until when the access token is good; zero without one.
func (c *Client) TokenUntil() time.Time { return c.tokens.validUntil() }

// pace waits for the turn of one more call.
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

// call asks AMS. A token that is not taken is replaced once.
func (c *Client) call(ctx context.Context, op, method, path string, body any) (*answer, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("write what AMS is asked: %w", err)
		}
	}
	for rejected := ""; ; {
		token, err := c.tokens.get(ctx, rejected)
		if err != nil {
			return nil, err
		}
		if err := c.pace(ctx); err != nil {
			return nil, err
		}
		got, err := c.send(ctx, op, method, path, token, text)
		if err != nil {
			return nil, err
		}
		if got.status == http.StatusUnauthorized && rejected == "" {
			rejected = token
			continue
		}
		return got, c.check(op, got)
	}
}

func (c *Client) send(ctx context.Context, op, method, path, token string, body []byte) (*answer, error) {
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
	c.log.DebugContext(ctx, "AMS was asked.", "op", op, "status", done.Status, "operation", operation, "error", err)
	return got, err
}

// check turns an answer that is not a success into a *CallError.
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
	failure.Class = classOf(got)
	failure.Banned = failure.Class == Forbidden && strings.HasSuffix(failure.Code, "-22")
	failure.Text = describe(got.status, failure, shape.Reason)
	return failure
}

func classOf(got *answer) Class {
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
		return Intercepted // AMS's own refusals are JSON, or empty
	}
	switch got.status {
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound, http.StatusGone:
		return Missing
	case http.StatusConflict:
		return Conflict
	case http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return Strange
	}
	return Refused
}

func describe(status int, failure *CallError, reason string) string {
	switch {
	case failure.Class == Intercepted:
		return fmt.Sprintf("Somebody else answers in AMS's place (HTTP %d that is not AMS's): is there a captive "+
			"portal or a proxy's page?", status)
	case reason != "":
		return strings.TrimSuffix(reason, ".") + "."
	}
	return fmt.Sprintf("AMS answered %d %s and nothing else.", status, http.StatusText(status))
}

// longestWait bounds what AMS may have us wait.
const longestWait = time.Hour

// retryAfter reads both forms of the header; 0 when there is none.
func retryAfter(text string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longestWait)
}

// intercepted is a success that is not the object asked for.
func intercepted(op string, got *answer) *CallError {
	return &CallError{Class: Intercepted, Op: op, HTTP: got.status, Text: describe(got.status,
		&CallError{Class: Intercepted}, "")}
}

// wireRow is what is read of a subscription; the rest of it is kept as it came.
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

// Account is who the credentials belong to.
type Account struct {
	ID             string
	Username       string
	OrganizationID string
	Organization   string // its name
}

// Account asks who the credentials belong to.
func (c *Client) Account(ctx context.Context) (Account, error) {
	got, err := c.call(ctx, "account", http.MethodGet, accountsRoot+"/current_account", nil)
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

// Get reads a subscription; nil when it is gone.
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

// Search finds the subscriptions that bear a cluster's id, or the id that the cluster has itself,
// when that is known. What is deprovisioned is left out.
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

// Create asks for a subscription of a new cluster. The row that it returns may be bare: its id
// alone.
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
			Text: fmt.Sprintf("AMS does not allow the cluster: the quota is short of %s.",
				resourceNames(wire.ExcessResources))}
	}
	row, ok := readRow(wire.Subscription)
	if !ok {
		return nil, &CallError{Class: Failing, Op: "create", HTTP: got.status,
			Text: "AMS answered without the subscription that it may have made."}
	}
	return &row, nil
}

func resourceNames(resources []json.RawMessage) string {
	if len(resources) == 0 {
		return "something that it does not name"
	}
	text, err := json.Marshal(resources)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Update sends fields of a subscription, the empty ones left out, and its status if it is not "".
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

// Delete removes a subscription. One that is gone already is no error.
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
