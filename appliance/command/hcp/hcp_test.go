package hcp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
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

// A kubeconfig and an agent's certificate are issued once, so the file is checked before.
func TestKubeconfig_nothingIsIssuedForABadFile(t *testing.T) {
	var requests atomic.Int32
	appliance := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	for _, arguments := range [][]string{{"kubeconfig", "edge1"}, {"consumers", "agent", "mc1"}} {
		for file, says := range map[string]string{t.TempDir(): "is a directory",
			t.TempDir() + "/none/f": "no such file"} {
			cmd := New()
			cmd.SetArgs(append(arguments, "-o", file))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			require.ErrorContains(t, cmd.ExecuteContext(t.Context()), says)
		}
	}
	require.Zero(t, requests.Load())
}

func TestKubeconfig_onlyItsOwnerReads(t *testing.T) {
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "kubeconfigs") {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"operation":"1","status":"Succeeded","kubeconfig":"secret"}`)
			return
		}
		fmt.Fprint(w, "secret")
	}))
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	for _, arguments := range [][]string{{"kubeconfig", "edge1"}, {"consumers", "agent", "mc1"}} {
		file := t.TempDir() + "/file"
		require.NoError(t, os.WriteFile(file, []byte("former"), 0o644))
		cmd := New()
		cmd.SetArgs(append(arguments, "-o", file))
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "secret", string(text))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

// A second demo on the same data directory finds its clusters.
func TestDemo_goesOnWithItsClusters(t *testing.T) {
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"reason":"It is already there."}`)
		case r.URL.Path == path("edge1"):
			fmt.Fprint(w, `{"resource_id":"/subscriptions/5d21"}`)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"reason":"asked for `+r.URL.Path+`"}`)
		}
	}))
	defer appliance.Close()
	var out bytes.Buffer
	err := (&Demo{Client: remote.At(appliance.URL), Out: &out}).Run(t.Context())
	require.ErrorContains(t, err, "asked for "+hosted.ManagementRoute+"/mc1/agent")
	require.Contains(t, out.String(), "RESOURCE_ID=/subscriptions/5d21")
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
