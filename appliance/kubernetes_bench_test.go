package appliance_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"landfall/porttest"
)

// BenchmarkKubernetes starts the program with the Kubernetes API and measures the time until
// /readyz responds and the resources in use: on an empty data directory and later on a used one;
// idle, with a thousand hosts, and after a session of kubectl requests.
func BenchmarkKubernetes(b *testing.B) {
	program := buildProgram(b)
	built, err := os.Stat(program)
	require.NoError(b, err)
	s := newSite(b)
	s.config.Listen = porttest.Reserve(b)
	var first, again []time.Duration
	for i := 0; i < 5; i++ {
		s.config.DataDir = filepath.Join(b.TempDir(), fmt.Sprint(i))
		for _, list := range []*[]time.Duration{&first, &again} {
			c := s.execKubernetes(b, program)
			*list = append(*list, c.ready)
			c.stop(b)
		}
	}
	for b.Loop() {
		c := s.execKubernetes(b, program)
		again = append(again, c.ready)
		c.stop(b)
	}
	idle := s.execKubernetes(b, program)
	<-time.After(idleFor)
	b.ReportMetric(float64(idle.status(b, "VmRSS"))/1024, "idle-RSS-MiB")
	idle.stop(b)
	s.config.DataDir = filepath.Join(b.TempDir(), "hosts")
	s.seed(b, 333, 3)
	busy := s.execKubernetes(b, program)
	for last := time.Duration(-1); ; { // the appliance is still creating objects for rows from before
		now := busy.cpu(b)
		if last >= 0 && now-last < idleFor/4 {
			break
		}
		last = now
		<-time.After(idleFor)
	}
	s.session(b)
	b.ReportMetric(float64(busy.status(b, "VmRSS"))/1024, "1000-hosts-at-once-RSS-MiB")
	<-time.After(2 * idleFor)
	b.ReportMetric(float64(busy.status(b, "VmRSS"))/1024, "1000-hosts-RSS-MiB")
	b.ReportMetric(float64(busy.status(b, "RssAnon"))/1024, "1000-hosts-RssAnon-MiB")
	busy.stop(b)
	for name, list := range map[string][]time.Duration{"first-ready-ms": first, "restart-ready-ms": again} {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, name)
	}
	b.ReportMetric(float64(built.Size())/1e6, "binary-MB")
	b.ReportMetric(0, "ns/op")
}

// execKubernetes starts the program with the Kubernetes API and returns when the API is ready.
func (s *site) execKubernetes(b *testing.B, program string) *child {
	asYAML := func(value any) string {
		text, err := yaml.Marshal(value)
		require.NoError(b, err)
		return string(text)
	}
	iso, release := s.config.OSImages[0], s.config.ReleaseImages[0]
	cmd := exec.Command(program, "serve", "--auth", "none", "--listen", s.config.Listen, "--data-dir", s.config.DataDir,
		"--kubernetes-enabled=true",
		"--mirror-idms-files", s.config.Mirror.IDMSFiles[0],
		"--os-images", asYAML([]map[string]string{{"openshift_version": iso.OpenshiftVersion,
			"cpu_architecture": iso.CPUArchitecture, "path": iso.Path}}),
		"--release-images", asYAML([]map[string]string{{"openshift_version": release.OpenshiftVersion,
			"cpu_architecture": release.CPUArchitecture, "url": release.URL}}))
	var output strings.Builder
	cmd.Stderr = &output
	start := time.Now()
	require.NoError(b, cmd.Start())
	c := &child{cmd: cmd}
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		response, err := http.Get("http://" + s.config.Listen + "/readyz")
		if err == nil {
			require.NoError(b, response.Body.Close())
			if response.StatusCode == http.StatusOK {
				c.ready = time.Since(start)
				return c
			}
		}
		if time.Since(start) > 20*time.Second {
			c.stop(b)
			b.Fatalf("the program does not respond: %s", output.String())
		}
		<-ticks.C
	}
}

// session sends the requests of a kubectl session: discovery, OpenAPI documents, and a list of each
// kind.
func (s *site) session(b *testing.B) {
	for _, path := range []string{
		"/api", "/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/hive.openshift.io/v1",
		"/openapi/v3/apis/agent-install.openshift.io/v1beta1",
		"/api/v1/namespaces", "/api/v1/secrets", "/apis/hive.openshift.io/v1/clusterdeployments",
		"/apis/hive.openshift.io/v1/clusterimagesets",
		"/apis/extensions.hive.openshift.io/v1beta1/agentclusterinstalls",
		"/apis/agent-install.openshift.io/v1beta1/infraenvs",
		"/apis/agent-install.openshift.io/v1beta1/agents?limit=500",
		"/apis/agent-install.openshift.io/v1beta1/nmstateconfigs", "/apis/metal3.io/v1alpha1/baremetalhosts",
	} {
		response, err := http.Get("http://" + s.config.Listen + path)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
		require.Equal(b, http.StatusOK, response.StatusCode, path)
	}
}
