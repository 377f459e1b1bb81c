package hcp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/web"
	"landfall/web/hosted"
)

func TestPool_arguments(t *testing.T) {
	p, err := parsePool("workers=large:3")
	require.NoError(t, err)
	require.Equal(t, hosted.NewPool{Name: "workers", Profile: "large", Replicas: 3}, p)
	for _, bad := range []string{"", "workers", "workers=large", "workers=:3", "=large:3", "workers=large:x",
		"workers=large:-1"} {
		_, err := parsePool(bad)
		require.ErrorContains(t, err, "NAME=PROFILE:REPLICAS", bad)
	}
}

// An appliance without hosted clusters answers, so that the page and the commands can say why.
func TestList_disabledHostedClusters(t *testing.T) {
	server := web.New(web.Options{})
	require.NoError(t, server.Register(hosted.DisabledOperations()...))
	appliance := httptest.NewServer(server)
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	for _, arguments := range [][]string{{"list"}, {"consumers"}} {
		cmd := New()
		cmd.SetArgs(arguments)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "set hosted.enabled to true and restart", arguments)
	}
}

func TestList_emptyOneNamesSubscription(t *testing.T) {
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"subscription":"5d21","clusters":[],"management_clusters":[]}`)
	}))
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	var out bytes.Buffer
	cmd := New()
	cmd.SetArgs([]string{"list"})
	cmd.SetOut(&out)
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Equal(t, "No hosted clusters. Create one with landfall hcp create. Requests to the resource provider name "+
		"the subscription 5d21.\n", out.String())
}

// overdue is a context whose time is over when it is canceled.
type overdue struct{ context.Context }

func (o overdue) Err() error {
	if o.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

func TestKubeconfig_saysWhyTheWaitEnded(t *testing.T) {
	for name, c := range map[string]struct {
		limit func(context.Context) context.Context
		code  int
		says  string
	}{
		"the time is over": {func(ctx context.Context) context.Context { return overdue{ctx} }, outcome.Waiting,
			"the management cluster has not signed the certificate yet"},
		"it was interrupted": {func(ctx context.Context) context.Context { return ctx }, outcome.Failure,
			"context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"operation":"1","status":"Accepted"}`)
				if r.Method == http.MethodGet {
					cancel()
				}
			}))
			defer appliance.Close()
			t.Setenv("LANDFALL_URL", appliance.URL)
			_, err := waitForKubeconfig(c.limit(ctx), action.New(), "shop")
			require.ErrorContains(t, err, c.says)
			code, _ := outcome.Of(err)
			require.Equal(t, c.code, code)
			require.Equal(t, c.code != outcome.Waiting, outcome.IsCancellation(err))
		})
	}
}
