package kube_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"landfall/appliance/kube/objects"
	"landfall/store"
	"landfall/web/kube"
)

// The watchers of BenchmarkWatch run in a child process of the test program, so that the measured
// CPU time is the server's alone. They only read lines.
const watchersVariable = "LANDFALL_BENCH_WATCHERS" // "<number> <URL>"

func TestMain(m *testing.M) {
	if watchers := os.Getenv(watchersVariable); watchers != "" {
		number, url, _ := strings.Cut(watchers, " ")
		if err := readLines(number, url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// readLines requests a URL that never ends on several connections. It writes a byte when all have
// received their header, and another byte whenever each has received one more line.
func readLines(number, url string) error {
	clients, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	arrived := make(chan error, clients)
	for range clients {
		go func() {
			client := http.Client{Transport: &http.Transport{}}
			response, err := client.Get(url)
			if err == nil && response.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s answers %s", url, response.Status)
			}
			arrived <- err
			for reader := bufio.NewReaderSize(response.Body, 64<<10); err == nil; {
				_, err = reader.ReadSlice('\n')
				arrived <- err
			}
		}()
	}
	for {
		for range clients { // the next line is written only when each client has the previous one
			if err := <-arrived; err != nil {
				return err
			}
		}
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return err
		}
	}
}

// watching starts watchers of a URL and returns when they have begun. The returned function waits
// until all of them have received one more line.
func watching(b *testing.B, watchers int, url string) (wait func()) {
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprint(watchersVariable, "=", watchers, " ", url))
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, cmd.Process.Kill())
		require.Error(b, cmd.Wait(), "it was killed")
	})
	wait = func() {
		_, err := io.ReadFull(output, make([]byte, 1))
		require.NoError(b, err)
	}
	wait()
	return wait
}

// used returns the CPU time of this process.
func used(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// floor sends a text to all clients on demand. That is the least that a server written in Go can do
// for watchers.
type floor struct {
	mu  sync.Mutex
	all []chan []byte
}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	texts := make(chan []byte, 1)
	f.mu.Lock()
	f.all = append(f.all, texts)
	f.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher)
	flush.Flush()
	for {
		select {
		case text := <-texts:
			if _, err := w.Write(text); err != nil {
				return
			}
			flush.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (f *floor) send(text []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, texts := range f.all {
		texts <- text
	}
}

// contest is one of the contestants that alternate in BenchmarkWatch.
type contest struct {
	name      string
	namespace string
	publish   func() // sends a change, if the API does not
	wait      func() // waits until all watchers have the change

	changes int
	cpu     []time.Duration // for a change, one per turn
	took    []time.Duration // of each change, from its beginning until the last watcher has it
	late    []time.Duration // likewise, from the end of the commit
}

// turn makes some changes.
func (c *contest) turn(b *testing.B, s *site, changes int) {
	before := used(b)
	for range changes {
		c.changes++
		start := time.Now()
		require.NoError(b, s.options.DB.Update(context.Background(), func(tx *store.Tx) error {
			return s.options.Objects.Update(tx, objects.InfraEnvs, c.namespace, "one",
				func(u *unstructured.Unstructured) error {
					u.Object["status"] = map[string]any{"createdTime": time.Unix(int64(c.changes),
						0).UTC().Format(time.RFC3339)}
					return nil
				})
		}))
		committed := time.Now()
		c.publish()
		c.wait()
		c.took, c.late = append(c.took, time.Since(start)), append(c.late, time.Since(committed))
	}
	c.cpu = append(c.cpu, (used(b)-before)/time.Duration(changes))
}

// at returns a percentile of durations in milliseconds.
func at(list []time.Duration, share float64) float64 {
	slices.Sort(list)
	return float64(list[int(float64(len(list)-1)*share)].Microseconds()) / 1000
}

const (
	manyWatchers = 100
	watchTurn    = 20 // changes
)

// BenchmarkWatch commits status changes as the engine does. It measures the cost of a change until
// all watchers have it: the CPU time of the server, and the time until the last watcher has it. The
// floor is the same commits without watchers of the API, while a bare server sends as many bytes to
// as many clients. The two alternate, so that a machine with a drifting speed favours neither.
func BenchmarkWatch(b *testing.B) {
	s, _ := synced(b)
	url := overHTTP(b, s)
	var contests []*contest
	for _, watchers := range []int{1, manyWatchers} {
		namespace := fmt.Sprint("watched-by-", watchers)
		s.create(b, objects.Namespaces, "", namespace, "")
		s.create(b, objects.InfraEnvs, namespace, "one", infraEnvSpec)
		watch := fmt.Sprintf(
			"%s/apis/agent-install.openshift.io/v1beta1/namespaces/%s/infraenvs?watch=true&resourceVersion=%d",
			url, namespace, s.options.DB.Revision())
		contests = append(contests, &contest{
			name: fmt.Sprint("API-", watchers), namespace: namespace, publish: func() {},
			wait: watching(b, watchers, watch),
		})
		f := new(floor)
		bare := httptest.NewServer(f)
		b.Cleanup(bare.Close)
		namespace = fmt.Sprint("unwatched-", watchers)
		s.create(b, objects.Namespaces, "", namespace, "")
		s.create(b, objects.InfraEnvs, namespace, "one", infraEnvSpec)
		text := lineOf(b, s, namespace)
		contests = append(contests, &contest{
			name: fmt.Sprint("floor-", watchers), namespace: namespace, publish: func() { f.send(text) },
			wait: watching(b, watchers, bare.URL),
		})
	}
	for _, c := range contests {
		c.turn(b, s, watchTurn)
		c.cpu, c.took, c.late = nil, nil, nil
	}
	for b.Loop() {
		for _, c := range contests {
			c.turn(b, s, watchTurn)
		}
	}
	for _, c := range contests {
		b.ReportMetric(at(c.cpu, 0.5), c.name+"-CPU-ms")
		b.ReportMetric(at(c.took, 0.5), c.name+"-ms")
		b.ReportMetric(at(c.late, 0.99), c.name+"-p99-ms")
	}
	for i, name := range []string{"API", "floor"} {
		one, many := contests[i], contests[i+2]
		b.ReportMetric(at(many.cpu, 0.5)/at(one.cpu, 0.5), name+"-CPU-ratio")
		b.ReportMetric(at(many.took, 0.5)/at(one.took, 0.5), name+"-time-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// lineOf returns a line of a watch.
func lineOf(b *testing.B, s *site, namespace string) []byte {
	text, err := s.get(b, objects.InfraEnvs, namespace, "one").MarshalJSON()
	require.NoError(b, err)
	return append(bytes.TrimSpace(text), '\n')
}

// synced is a site whose commits are synced to the disk, with clients over HTTP.
func synced(b *testing.B) (*site, func() dynamic.Interface) {
	s := newSite(b, func(o *kube.Options) {
		db, err := store.Open(context.Background(), b.TempDir(), store.Options{Versioned: kube.Bucket})
		require.NoError(b, err)
		require.NoError(b, o.DB.Close())
		b.Cleanup(func() { require.NoError(b, db.Close()) })
		o.DB = db
	})
	url := overHTTP(b, s)
	return s, func() dynamic.Interface {
		client, err := dynamic.NewForConfig(&rest.Config{Host: url, QPS: -1,
			Transport: &http.Transport{MaxIdleConnsPerHost: 1}})
		require.NoError(b, err)
		return client
	}
}

func resourceOf(kind objects.Kind) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
}

var infraEnvSpec = `"spec":{"pullSecretRef":{"name":"pull"},"sshAuthorizedKey":"` + strings.Repeat("k", 400) + `"}`

// BenchmarkCreate creates InfraEnvs. Each one takes a request and is on disk before the answer.
func BenchmarkCreate(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			_, dial := synced(b)
			made := make([]dynamic.ResourceInterface, clients)
			for i := range made {
				made[i] = dial().Resource(resourceOf(objects.InfraEnvs)).Namespace("default")
			}
			_, err := made[0].Create(b.Context(), object(b, objects.InfraEnvs, "default", "warm", infraEnvSpec),
				metav1.CreateOptions{})
			require.NoError(b, err)
			b.ResetTimer()
			start := time.Now()
			var group sync.WaitGroup
			for c, client := range made {
				group.Go(func() {
					for i := c; i < b.N; i += clients {
						if _, err := client.Create(b.Context(), object(b, objects.InfraEnvs, "default",
							fmt.Sprint("i-", i), infraEnvSpec), metav1.CreateOptions{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "creates/s")
		})
	}
}
