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

// The watchers of BenchmarkWatch run in a child process of the test program, so that only the CPU
// time of the server is measured. They only read lines.
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

// readLines requests a URL whose response does not end, on several connections. It writes a byte
// when all have received their header, and another byte whenever each has received one more line.
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
				err = fmt.Errorf("%s responds with %s", url, response.Status)
			}
			arrived <- err
			for reader := bufio.NewReaderSize(response.Body, 64<<10); err == nil; {
				_, err = reader.ReadSlice('\n')
				arrived <- err
			}
		}()
	}
	for {
		for range clients { // the server writes the next line after each client has received this one
			if err := <-arrived; err != nil {
				return err
			}
		}
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return err
		}
	}
}

// watching starts watchers of a URL and returns when they have received the header. The returned
// function waits until all have received one more line.
func watching(b *testing.B, watchers int, url string) (wait func()) {
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprint(watchersVariable, "=", watchers, " ", url))
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, cmd.Process.Kill())
		require.Error(b, cmd.Wait(), "the child process was killed")
	})
	wait = func() {
		_, err := io.ReadFull(output, make([]byte, 1))
		require.NoError(b, err)
	}
	wait()
	return wait
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// floor is a minimal server in Go for watchers: it sends a text to all clients on demand.
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

// variant is one of the variants that alternate in BenchmarkWatch.
type variant struct {
	name      string
	namespace string
	publish   func() // sends a change to the watchers of the floor
	wait      func() // waits until all watchers have the change

	changes int
	cpu     []time.Duration // per change, one for each round
	took    []time.Duration // of each change, from the start of its transaction until the last watcher has it
	late    []time.Duration // of each change, from the end of the commit until the last watcher has it
}

// round commits some changes.
func (c *variant) round(b *testing.B, s *site, changes int) {
	before := cpuTime(b)
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
	c.cpu = append(c.cpu, (cpuTime(b)-before)/time.Duration(changes))
}

// percentile returns a percentile of durations in milliseconds.
func percentile(list []time.Duration, share float64) float64 {
	slices.Sort(list)
	return float64(list[int(float64(len(list)-1)*share)].Microseconds()) / 1000
}

const (
	manyWatchers    = 100
	changesPerRound = 20
)

// BenchmarkWatch commits status changes as the engine does. It measures the CPU time of the server
// per change, and the time until the last watcher has the change. For comparison, the variant
// "floor" commits the same changes without watchers of the API, while a minimal server sends the
// same number of bytes to the same number of clients. The variants alternate, so that a changing
// speed of the machine affects all of them.
func BenchmarkWatch(b *testing.B) {
	s, _ := synced(b)
	url := overHTTP(b, s)
	var variants []*variant
	for _, watchers := range []int{1, manyWatchers} {
		namespace := fmt.Sprint("watched-by-", watchers)
		s.create(b, objects.Namespaces, "", namespace, "")
		s.create(b, objects.InfraEnvs, namespace, "one", infraEnvSpec)
		watch := fmt.Sprintf(
			"%s/apis/agent-install.openshift.io/v1beta1/namespaces/%s/infraenvs?watch=true&resourceVersion=%d",
			url, namespace, s.options.DB.Revision())
		variants = append(variants, &variant{
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
		variants = append(variants, &variant{
			name: fmt.Sprint("floor-", watchers), namespace: namespace, publish: func() { f.send(text) },
			wait: watching(b, watchers, bare.URL),
		})
	}
	for _, c := range variants {
		c.round(b, s, changesPerRound)
		c.cpu, c.took, c.late = nil, nil, nil
	}
	for b.Loop() {
		for _, c := range variants {
			c.round(b, s, changesPerRound)
		}
	}
	for _, c := range variants {
		b.ReportMetric(percentile(c.cpu, 0.5), c.name+"-CPU-ms")
		b.ReportMetric(percentile(c.took, 0.5), c.name+"-ms")
		b.ReportMetric(percentile(c.late, 0.99), c.name+"-p99-ms")
	}
	for i, name := range []string{"API", "floor"} {
		one, many := variants[i], variants[i+2]
		b.ReportMetric(percentile(many.cpu, 0.5)/percentile(one.cpu, 0.5), name+"-CPU-ratio")
		b.ReportMetric(percentile(many.took, 0.5)/percentile(one.took, 0.5), name+"-time-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// lineOf returns one line of a watch response.
func lineOf(b *testing.B, s *site, namespace string) []byte {
	text, err := s.get(b, objects.InfraEnvs, namespace, "one").MarshalJSON()
	require.NoError(b, err)
	return append(bytes.TrimSpace(text), '\n')
}

// synced returns a site whose commits are synced to the disk, with clients over HTTP.
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

// BenchmarkCreate creates InfraEnvs with one request each. Each InfraEnv is on disk before the
// response.
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
