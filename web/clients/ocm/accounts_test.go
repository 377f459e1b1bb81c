package ocm_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	sdk "github.com/openshift-online/ocm-sdk-go"
	azv1 "github.com/openshift-online/ocm-sdk-go/authorizations/v1"
	"github.com/openshift-online/ocm-sdk-go/logging"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams"
	"landfall/appliance/ams/local"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web"
	"landfall/web/accounts"
)

// site is an appliance with only its AMS API.
type site struct {
	*testing.T
	db    *store.DB
	local *local.Site
	relay *ams.Relay
	clock *clockwork.FakeClock
	url   string
}

type nobody struct{}

func (nobody) Secret(context.Context) (ams.Secret, error)      { return ams.Secret{}, nil }
func (nobody) Remedy() string                                  { return "" }
func (nobody) Rotate(context.Context, string, string) error    { return nil }
func (nobody) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrHandlerTimeout }
func (nobody) RecordSubscription(context.Context, string, string, string, bool, func(*store.Tx) error) error {
	return nil
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	// The upstream client compares the expiry of its tokens with the machine's own clock.
	clock := clockwork.NewFakeClockAt(time.Now())
	db, err := store.Open(t.Context(), dir, store.Options{Clock: clock, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	s := &site{T: t, db: db, clock: clock}
	s.relay = ams.New(ams.Options{
		DB: db, Clusters: nobody{}, Clock: clock, Logger: quiet, Key: key, Credentials: nobody{},
		Client: ams.NewClient(ams.ClientOptions{Transport: nobody{}, Credentials: nobody{}, Clock: clock,
			Logger: quiet}),
	})
	s.local, err = local.New(local.Options{DB: db, Clock: clock, Key: key, Owner: s.relay.Owner})
	require.NoError(t, err)
	server := web.New(web.Options{})
	require.NoError(t, server.Register(accounts.Operations(accounts.Options{
		Subscriptions: s.relay, Site: s.local, PullSecret: func() ([]byte, error) {
			return []byte(`{"auths":{"quay.io":{"auth":"c2l0ZQ=="}}}`), nil
		},
	})...))
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	s.url = listening.URL
	return s
}

// cluster registers a cluster, and installs it if it has a domain.
func (s *site) cluster(name, domain string) (id, external string) {
	s.Helper()
	id = uuid.NewString()
	now := s.clock.Now().UTC()
	d := outbox.Desired{Generation: 1, Phase: outbox.Reserved, Fields: outbox.Fields{DisplayName: name}, CreatedAt: now,
		ChangedAt: now}
	if domain != "" {
		external = uuid.NewString()
		d.Phase, d.MustExist, d.ExternalClusterID, d.ConsoleURL = outbox.Active, true, external,
			"https://console-openshift-console.apps."+domain
	}
	require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error { return outbox.PutDesired(tx, id, &d) }))
	return id, external
}

func (s *site) token(wanted local.Request) *local.Issued {
	s.Helper()
	issued, err := s.local.Issue(s.Context(), wanted)
	require.NoError(s, err)
	return issued
}

// ocm returns a connection of the ocm command's SDK that is logged in with a token, as `ocm login
// --token … --url …` does.
func (s *site) ocm(token string) *sdk.Connection {
	s.Helper()
	return s.connect(sdk.NewConnectionBuilder().Tokens(token))
}

func (s *site) connect(builder *sdk.ConnectionBuilder) *sdk.Connection {
	s.Helper()
	logger, err := logging.NewGoLoggerBuilder().Debug(false).Info(false).Build()
	require.NoError(s, err)
	connection, err := builder.Logger(logger).URL(s.url).TokenURL(s.url + accounts.TokenPath).BuildContext(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, connection.Close()) })
	return connection
}

// get sends the request of `ocm get PATH -p …`.
func (s *site) get(connection *sdk.Connection, path string, parameters ...string) (int, map[string]any) {
	s.Helper()
	request := connection.Get().Path(path)
	for _, parameter := range parameters {
		name, value, _ := strings.Cut(parameter, "=")
		request.Parameter(name, value)
	}
	return s.read(request.SendContext(s.Context()))
}

func (s *site) read(response *sdk.Response, err error) (int, map[string]any) {
	s.Helper()
	require.NoError(s, err)
	var answer map[string]any
	if len(response.Bytes()) > 0 {
		require.NoError(s, json.Unmarshal(response.Bytes(), &answer), response.String())
	}
	return response.Status(), answer
}

// pick returns the values of a field in the items of a list, as jq's .items[].<name> does.
func pick(list map[string]any, name string) []any {
	found := []any{}
	items, _ := list["items"].([]any)
	for _, item := range items {
		value := item
		for part := range strings.SplitSeq(name, ".") {
			value = value.(map[string]any)[part]
		}
		found = append(found, value)
	}
	return found
}

const (
	subscriptions = accounts.Root + "/subscriptions"
	organizations = accounts.Root + "/organizations/"
)

// TestAccounts_knownRequests sends the requests of OCM's guide with the SDK of the ocm command.
func TestAccounts_knownRequests(t *testing.T) {
	s := newSite(t)
	one, _ := s.cluster("one", "")
	two, external := s.cluster("two", "two.site.test")
	ocm := s.ocm(s.token(local.Request{}).Secret)
	s.token(local.Request{Username: "jane.doe"})

	// ocm whoami | jq -r .organization.id
	account, err := ocm.AccountsMgmt().V1().CurrentAccount().Get().SendContext(t.Context())
	require.NoError(t, err)
	require.Equal(t, "admin", account.Body().Username())
	organization := account.Body().Organization().ID()
	require.Len(t, organization, 27)

	// ocm get subscriptions
	status, all := s.get(ocm, subscriptions)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "SubscriptionList", all["kind"])
	require.ElementsMatch(t, []any{one, two}, pick(all, "cluster_id"))
	id := map[any]string{}
	for i, cluster := range pick(all, "cluster_id") {
		id[cluster] = pick(all, "id")[i].(string)
	}

	// ocm get subscription ID
	status, single := s.get(ocm, subscriptions+"/"+id[two])
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "two", single["display_name"])
	for _, name := range []string{
		"id", "kind", "href", "plan", "cluster_id", "external_cluster_id", "organization_id", "last_telemetry_date",
		"created_at", "updated_at", "support_level",
		"display_name", "creator", "managed", "status", "provenance", "last_reconcile_date", "console_url",
		"last_released_at", "metrics", "cloud_provider_id", "trial_end_date",
	} {
		require.Contains(t, single, name)
	}
	typed, err := ocm.AccountsMgmt().V1().Subscriptions().Subscription(id[two]).Get().SendContext(t.Context())
	require.NoError(t, err)
	require.Equal(t, external, typed.Body().ExternalClusterID())
	require.Equal(t, organization, typed.Body().OrganizationID())

	// ocm get subscriptions --parameter search="…"
	for search, want := range map[string][]any{
		"cluster_id = '" + one + "'":               {one},
		"external_cluster_id = '" + external + "'": {two},
		"status = 'Active'":                        {two},
		"status = 'Reserved'":                      {one},
		"status = 'Stale'":                         {},
	} {
		status, found := s.get(ocm, subscriptions, "search="+search)
		require.Equal(t, http.StatusOK, status, search)
		require.Equal(t, want, pick(found, "cluster_id"), search)
	}

	// ocm get /api/accounts_mgmt/v1/accounts -p search="username = 'jane.doe'" | jq -r
	// '.items[].organization.id'
	status, found := s.get(ocm, accounts.Root+"/accounts", "search=username = 'jane.doe'")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []any{organization}, pick(found, "organization.id"))

	// ocm post …/organizations/ID/labels <<. … .
	const key = "capability.organization.bare_metal_installer_multiarch"
	labels := organizations + organization + "/labels"
	status, label := s.read(ocm.Post().Path(labels).String(`{"key": "` + key + `", "value": "true", "internal": true}`).
		SendContext(t.Context()))
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, "Label", label["kind"])
	require.Equal(t, organization, label["organization_id"])

	// ocm get …/labels | jq -r '.items[] | select(.type == "Organization") | .key'
	status, found = s.get(ocm, labels)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []any{"Organization"}, pick(found, "type"))
	require.Equal(t, []any{key}, pick(found, "key"))
	capable, err := s.local.Capable(local.Bearer{Type: local.OfOrganization}, local.Multiarch)
	require.NoError(t, err)
	require.True(t, capable)

	// ocm delete …/labels/KEY
	status, _ = s.read(ocm.Delete().Path(labels + "/" + key).SendContext(t.Context()))
	require.Equal(t, http.StatusNoContent, status)
	status, found = s.get(ocm, labels)
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, pick(found, "key"))

	// ocm account status, ocm list orgs, ocm list quota, ocm account users
	for path, parameters := range map[string][]string{
		accounts.Root + "/role_bindings": {"search=account_id in ('" + account.Body().ID() + "')",
			"page=1", "size=100"},
		accounts.Root + "/organizations":             {"page=1", "size=100"},
		organizations + organization + "/quota_cost": {"fetchRelatedResources=true"},
		accounts.Root + "/accounts":                  {"search=organization_id='" + organization + "'"},
	} {
		status, answer := s.get(ocm, path, parameters...)
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, answer, "items", path)
	}
}

func TestLists_searchOrderPages(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"b", "d", "a", "c"} {
		s.cluster(name, map[bool]string{true: "site.test"}[name == "c"])
	}
	ocm := s.ocm(s.token(local.Request{}).Secret)
	for query, want := range map[string][]any{
		"order=display_name":                                   {"a", "b", "c", "d"},
		"orderBy=display_name desc":                            {"d", "c", "b", "a"},
		"order=status, display_name desc":                      {"c", "d", "b", "a"},
		"order=display_name&page=2&size=3":                     {"d"},
		"order=display_name&page=1&size=2":                     {"a", "b"},
		"order=display_name&page=9":                            {},
		"size=0":                                               {},
		"order=display_name&size=-1":                           {"a", "b", "c", "d"},
		"order=display_name&search=display_name in ('a', 'd')": {"a", "d"},
		"order=display_name&search=not status = 'Active' and display_name > 'a'":            {"b", "d"},
		"search=plan.id = 'OCP-AssistedInstall' and console_url is not null":                {"c"},
		"order=display_name&search=managed = 'f' and display_name not like 'c%'":            {"a", "b", "d"},
		"search=landfall.state = 'waiting' and display_name ~= '^[ab]$'&order=display_name": {"a", "b"},
	} {
		status, found := s.get(ocm, subscriptions, strings.Split(query, "&")...)
		require.Equal(t, http.StatusOK, status, query)
		require.Equal(t, want, pick(found, "display_name"), query)
		require.EqualValues(t, len(want), found["size"], query)
	}
	_, found := s.get(ocm, subscriptions, "fields=display_name,plan.type", "search=display_name = 'a'")
	require.Equal(t, []any{map[string]any{"id": pick(found, "id")[0], "display_name": "a",
		"plan": map[string]any{"type": "OCP"}}}, found["items"])
	require.EqualValues(t, 1, found["total"])
}

func TestAccounts_searchByCreator(t *testing.T) {
	s := newSite(t)
	s.cluster("one", "")
	s.cluster("two", "")
	ocm := s.ocm(s.token(local.Request{}).Secret)
	_, account := s.get(ocm, accounts.Root+"/current_account")
	name := account["username"].(string)
	_, found := s.get(ocm, subscriptions, "search=creator.username = '"+name+"'",
		"order=creator.username, display_name", "fields=display_name,creator.username")
	require.Equal(t, []any{"one", "two"}, pick(found, "display_name"))
	require.Equal(t, []any{name, name}, pick(found, "creator.username"))
	_, found = s.get(ocm, subscriptions, "search=creator.username = 'nobody'")
	require.Empty(t, pick(found, "id"))
	_, found = s.get(ocm, subscriptions)
	require.NotContains(t, found["items"].([]any)[0].(map[string]any)["creator"], "username", "a reference")
	for _, path := range []string{subscriptions, subscriptions + "/" + pick(found, "id")[0].(string)} {
		_, answer := s.get(ocm, path, "fetchAccounts=true")
		one := answer
		if items, isList := answer["items"].([]any); isList {
			one = items[0].(map[string]any)
		}
		require.Equal(t, name, one["creator"].(map[string]any)["username"], path)
	}
}

// The command "ocm list clusters" sends this request. The SDK shows the reason only if it can read
// the error.
func TestAccounts_clustersServiceError(t *testing.T) {
	s := newSite(t)
	ocm := s.ocm(s.token(local.Request{}).Secret)
	_, err := ocm.ClustersMgmt().V1().Clusters().List().SendContext(t.Context())
	require.ErrorContains(t, err, "status is 404, identifier is '7'")
	require.ErrorContains(t, err, "ocm get subscriptions")
}

func TestAccounts_errorsInAMSFormat(t *testing.T) {
	s := newSite(t)
	s.cluster("one", "")
	ocm := s.ocm(s.token(local.Request{}).Secret)
	for _, c := range []struct {
		path, parameter string
		status          int
		code, reason    string
	}{
		{subscriptions, `search=status = "Active"`, http.StatusBadRequest, "ACCT-MGMT-23", "single quotes"},
		{subscriptions, "search=shoe_size = '3'", http.StatusBadRequest, "ACCT-MGMT-23", "not a field of the listed"},
		{subscriptions, "search=status = 3", http.StatusBadRequest, "ACCT-MGMT-23", "single quotes"},
		{subscriptions, "order=shoe_size", http.StatusBadRequest, "ACCT-MGMT-21", "not a field of the listed"},
		{subscriptions, "order=status upwards", http.StatusBadRequest, "ACCT-MGMT-21", "is not valid"},
		{subscriptions, "page=first", http.StatusBadRequest, "ACCT-MGMT-21", "expected a number"},
		{subscriptions, "page=0", http.StatusBadRequest, "ACCT-MGMT-21", "the first page is 1"},
		{subscriptions + "/2GOuuT2l3odeHRdWqY57fviSE2K", "", http.StatusNotFound, "ACCT-MGMT-7",
			"no such subscription"},
		{organizations + "2GOuuT2l3odeHRdWqY57fviSE2K", "", http.StatusNotFound, "ACCT-MGMT-7", "not found"},
		{accounts.Root + "/accounts/nobody", "", http.StatusNotFound, "ACCT-MGMT-7", "not found"},
		{accounts.Root + "/clouds", "", http.StatusNotFound, "ACCT-MGMT-7", "this API has no operation GET"},
	} {
		var parameters []string
		if c.parameter != "" {
			parameters = append(parameters, c.parameter)
		}
		status, answer := s.get(ocm, c.path, parameters...)
		require.Equal(t, c.status, status, c)
		require.Equal(t, "Error", answer["kind"], c)
		require.Equal(t, c.code, answer["code"], c)
		require.Contains(t, answer["reason"], c.reason)
		require.NotEmpty(t, answer["operation_id"], c)
	}
	for _, path := range []string{subscriptions, accounts.Root + "/cluster_authorizations"} {
		status, answer := s.read(ocm.Post().Path(path).String(`{}`).SendContext(t.Context()))
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, answer["reason"], "by itself")
	}
	organization := s.local.Organization().ID
	for body, reason := range map[string]string{
		`{"key": "capability.organization.x", "value": "true"}`:     "internal",
		`{"key": "a b", "value": "true"}`:                           "letters, digits",
		`{"key": "a", "value": "` + strings.Repeat("x", 256) + `"}`: "at most 255",
		`{`: "not the expected JSON",
	} {
		status, answer := s.read(ocm.Post().Path(organizations + organization + "/labels").String(body).
			SendContext(t.Context()))
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, answer["reason"], reason)
	}
}

func TestTokens_expiredOrRevoked(t *testing.T) {
	s := newSite(t)
	person := s.token(local.Request{Username: "jane.doe", Life: 48 * time.Hour})
	account, err := s.ocm(person.Secret).AccountsMgmt().V1().CurrentAccount().Get().SendContext(t.Context())
	require.NoError(t, err)
	require.Equal(t, "jane.doe", account.Body().Username())

	offline := s.token(local.Request{Kind: local.Offline})
	refreshed := s.ocm(offline.Secret)
	_, err = refreshed.AccountsMgmt().V1().CurrentAccount().Get().SendContext(t.Context())
	require.NoError(t, err)

	clientToken := s.token(local.Request{Kind: local.Client, ClientID: "assisted-installer-int"})
	client := s.connect(sdk.NewConnectionBuilder().Client("assisted-installer-int", clientToken.Secret))
	_, err = client.AccountsMgmt().V1().CurrentAccount().Get().SendContext(t.Context())
	require.NoError(t, err)

	access, _, err := client.TokensContext(t.Context())
	require.NoError(t, err)
	statusFor := func(token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+accounts.Root+"/current_account",
			nil)
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, statusFor(access))
	require.Equal(t, http.StatusOK, statusFor(person.Secret))
	for name, token := range map[string]string{
		"none":                    "",
		"offline token":           offline.Secret,
		"changed token":           person.Secret[:len(person.Secret)-2] + "AA",
		"token of another issuer": "eyJhbGciOiJub25lIn0.eyJ0eXAiOiJCZWFyZXIifQ.",
		"client secret":           clientToken.Secret,
	} {
		require.Equal(t, http.StatusUnauthorized, statusFor(token), name)
	}
	require.NoError(t, s.local.Revoke(t.Context(), "assisted-installer-int"))
	require.Equal(t, http.StatusUnauthorized, statusFor(access), "the access token is invalid with it")
	require.ErrorIs(t, s.local.Revoke(t.Context(), "assisted-installer-int"), local.ErrUnknown)
	s.token(local.Request{Kind: local.Client, ClientID: "assisted-installer-int"})
	require.Equal(t, http.StatusUnauthorized, statusFor(access), "the ID was issued again, not the token")
	s.clock.Advance(49 * time.Hour)
	require.Equal(t, http.StatusUnauthorized, statusFor(person.Secret), "it has expired")
}

func TestTokens_onlyDigestsAreStored(t *testing.T) {
	s := newSite(t)
	var secrets []string
	for _, kind := range []local.Kind{local.Access, local.Offline, local.Client} {
		secrets = append(secrets, s.token(local.Request{Kind: kind}).Secret)
	}
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		return store.NewBucket[json.RawMessage]("local-tokens", 1).Each(tx, "",
			func(_ string, row *json.RawMessage) error {
				for _, secret := range secrets {
					require.NotContains(t, string(*row), secret)
					require.NotContains(t, string(*row), secret[strings.LastIndexByte(secret, '.')+1:])
				}
				return nil
			})
	}))
}

func TestTokens_readOnlySetsNoLabels(t *testing.T) {
	s := newSite(t)
	ocm := s.ocm(s.token(local.Request{ReadOnly: true}).Secret)
	labels := organizations + s.local.Organization().ID + "/labels"
	status, answer := s.read(ocm.Post().Path(labels).String(`{"key": "a", "value": "b"}`).SendContext(t.Context()))
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, "ACCT-MGMT-11", answer["code"])
	status, _ = s.get(ocm, labels)
	require.Equal(t, http.StatusOK, status)
}

func TestReviews_readLabels(t *testing.T) {
	s := newSite(t)
	cluster, _ := s.cluster("one", "")
	ocm := s.ocm(s.token(local.Request{}).Secret)
	review := func(capability, of string) string {
		request, err := azv1.NewCapabilityReviewRequest().AccountUsername("admin").Capability(capability).Type(of).
			Build()
		require.NoError(t, err)
		response, err := ocm.Authorizations().V1().CapabilityReview().Post().Request(request).SendContext(t.Context())
		require.NoError(t, err)
		return response.Response().Result()
	}
	require.Equal(t, "false", review(local.IgnoreValidations, "Organization"))
	for path, key := range map[string]string{
		organizations + s.local.Organization().ID + "/labels": "capability.organization.ignore_validations",
		accounts.Root + "/accounts/admin/labels":              "capability.account.bare_metal_installer_admin",
	} {
		status, _ := s.read(ocm.Post().Path(path).String(`{"key": "` + key + `", "value": "true", "internal": true}`).
			SendContext(t.Context()))
		require.Equal(t, http.StatusCreated, status)
		status, _ = s.read(ocm.Post().Path(path).String(`{"key": "` + key + `", "value": "true", "internal": true}`).
			SendContext(t.Context()))
		require.Equal(t, http.StatusOK, status, "a repeated request is an update")
	}
	require.Equal(t, "true", review(local.IgnoreValidations, "Organization"))
	require.Equal(t, "true", review(local.Admin, "Account"))
	require.Equal(t, "false", review(local.Admin, "Organization"))

	access, err := azv1.NewAccessReviewRequest().AccountUsername("admin").Action("create").
		ResourceType("BareMetalCluster").Build()
	require.NoError(t, err)
	allowed, err := ocm.Authorizations().V1().AccessReview().Post().Request(access).SendContext(t.Context())
	require.NoError(t, err)
	require.True(t, allowed.Response().Allowed())

	// The SDK writes two slashes.
	status, feature := s.read(ocm.Post().Path(accounts.Authorizations + "//self_feature_review").
		String(`{"feature": "ignore-validations"}`).SendContext(t.Context()))
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, true, feature["enabled"])

	subscription := outbox.ProvisionalID(cluster, s.clock.Now())
	status, _ = s.read(ocm.Post().Path(subscriptions + "/" + subscription + "/labels").
		String(`{"key": "shelf", "value": "3"}`).SendContext(t.Context()))
	require.Equal(t, http.StatusCreated, status)
	for _, parameter := range []string{"labels=shelf=3", "search=labels.key = 'shelf' and labels.value = '3'"} {
		_, found := s.get(ocm, subscriptions, parameter)
		require.Equal(t, []any{cluster}, pick(found, "cluster_id"), parameter)
	}
	_, found := s.get(ocm, subscriptions, "labels=shelf=4")
	require.Empty(t, pick(found, "cluster_id"))

	secret, err := ocm.AccountsMgmt().V1().AccessToken().Post().SendContext(t.Context())
	require.NoError(t, err)
	require.Contains(t, secret.Body().Auths(), "quay.io")
}
