package image_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/discovery"
	"landfall/isogen"
	"landfall/isogen/skeleton"
	"landfall/web"
	"landfall/web/image"
)

// The benchmarks compare downloads of an image with http.ServeFile on the bare base ISO, which is
// close to the fastest server possible in Go. Both servers run in one child process of the test
// program, so that the measured CPU time and memory are those of a server alone; the clients run in
// this process. The two servers alternate, so that a drift of the machine's speed affects both.
// docs/performance.md explains the figures.

const (
	serveVariable = "LANDFALL_BENCH_SERVE" // the path of the base ISO that this process must serve
	benchBase     = 1 << 30
	benchRound    = 500 // requests
)

func TestMain(m *testing.M) {
	if path := os.Getenv(serveVariable); path != "" {
		if err := serveForBenchmarks(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// usage is the resource usage of a serving process.
type usage struct {
	CPU     time.Duration
	RSS     int64 // bytes
	Written int64 // bytes written to disk
}

// comparison describes a serving process: the addresses of both servers, and the time until the
// base was ready.
type comparison struct {
	Image, File       string
	ImageTLS, FileTLS string
	Ready             time.Duration
}

// serveForBenchmarks serves an image as the appliance does, and its base with http.ServeFile, until
// standard input ends.
func serveForBenchmarks(path string) error {
	start := time.Now()
	base, err := isogen.Open(path)
	if err != nil {
		return err
	}
	full, err := base.Full(isogen.Payload{Ignition: bytes.Repeat([]byte("config "), 10_000)})
	if err != nil {
		return err
	}
	said := comparison{Ready: time.Since(start)}
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil))
	mux := http.NewServeMux()
	mux.HandleFunc("/file.iso", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })
	mux.HandleFunc("/usage", tellUsage)
	fileTLS := httptest.NewTLSServer(mux)
	// one port for both, as on the appliance
	server := web.New(web.Options{Logger: logger, TLS: &web.TLS{Config: fileTLS.TLS.Clone()}})
	served := &discovery.Image{Image: full, InfraEnvID: infraEnv, Kind: discovery.Full, FileName: "discovery.iso",
		Modified: modified}
	service := image.New(image.Options{Source: &source{image: served}, Networks: discovery.Networks{{}},
		Logger: logger})
	if err := server.Register(service.Operations()...); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(context.Background(), listener) }()
	go func() { ended <- http.Serve(plain, mux) }()
	said.Image, said.File = listener.Addr().String(), plain.Addr().String()
	said.ImageTLS, said.FileTLS = said.Image, fileTLS.Listener.Addr().String()
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the parent process ends
	return err
}

func tellUsage(w http.ResponseWriter, _ *http.Request) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	u := usage{CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano()), Written: used.Oublock * 512}
	if status, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(status)); len(fields) > 1 {
			if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				u.RSS = pages * int64(os.Getpagesize())
			}
		}
	}
	if err := json.NewEncoder(w).Encode(u); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// startComparison writes a base ISO of the given size and starts the serving process.
func startComparison(b *testing.B, size int) (*comparison, func() usage) {
	path := filepath.Join(b.TempDir(), "live.iso")
	file, err := os.Create(path)
	require.NoError(b, err)
	require.NoError(b, skeleton.Write(file, skeleton.ISO{RootFSSize: size}))
	require.NoError(b, file.Close())
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), serveVariable+"="+path)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	require.NoError(b, err)
	stdout, err := command.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, command.Start())
	b.Cleanup(func() {
		require.NoError(b, stdin.Close())
		require.NoError(b, command.Wait())
	})
	said := &comparison{}
	require.NoError(b, json.NewDecoder(stdout).Decode(said))
	return said, func() usage {
		response, err := http.Get("http://" + said.File + "/usage")
		require.NoError(b, err)
		var u usage
		require.NoError(b, json.NewDecoder(response.Body).Decode(&u))
		require.NoError(b, response.Body.Close())
		return u
	}
}

// rawClient is an HTTP client with little overhead.
type rawClient struct {
	conn    net.Conn
	reader  *bufio.Reader
	request string // up to the value of the Range header
	buffer  []byte
}

func (c *comparison) dial(b *testing.B, ofImage bool) *rawClient {
	address, target := c.File, "/file.iso"
	if ofImage {
		address, target = c.Image, path
	}
	conn, err := net.Dial("tcp", address)
	require.NoError(b, err)
	return newRawClient(b, conn, address, target)
}

func (c *comparison) dialTLS(b *testing.B, ofImage bool) *rawClient {
	address, target := c.FileTLS, "/file.iso"
	if ofImage {
		address, target = c.ImageTLS, path
	}
	// the certificate is generated for this run only
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(b, err)
	return newRawClient(b, conn, address, target)
}

func newRawClient(b *testing.B, conn net.Conn, address, target string) *rawClient {
	b.Cleanup(func() { conn.Close() })
	return &rawClient{conn, bufio.NewReaderSize(conn, 256<<10), "GET " + target + " HTTP/1.1\r\nHost: " + address +
		"\r\nUser-Agent: bmc\r\n", make([]byte, 256<<10)}
}

// get requests a range ("" for the whole image). It returns the length of the body when the first
// byte has arrived.
func (c *rawClient) get(ranges string) (int64, error) {
	header := c.request
	if ranges != "" {
		header += "Range: bytes=" + ranges + "\r\n"
	}
	if _, err := io.WriteString(c.conn, header+"\r\n"); err != nil {
		return 0, err
	}
	length := int64(-1)
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return 0, err
			}
		}
		if len(line) == 2 {
			_, err := c.reader.Peek(1)
			return length, err
		}
	}
}

func (c *rawClient) skip(n int64) error {
	for n > 0 {
		k, err := c.reader.Read(c.buffer[:min(n, int64(len(c.buffer)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// BenchmarkImageDownload downloads whole images of 1 GiB. It measures the server's CPU time for
// each GiB, and the time to the first byte and the throughput of the client.
func BenchmarkImageDownload(b *testing.B) {
	c, used := startComparison(b, benchBase)
	b.Run("http", func(b *testing.B) { benchmarkDownload(b, c, used, c.dial) })
	// Over TLS, the kernel cannot copy a file to the socket for either server.
	b.Run("https", func(b *testing.B) { benchmarkDownload(b, c, used, c.dialTLS) })
}

func benchmarkDownload(b *testing.B, c *comparison, used func() usage, dial func(b *testing.B,
	ofImage bool) *rawClient) {
	var spent [2]time.Duration
	var first, cpu [2][]float64
	var sent [2]int64
	download := func(which int, all bool) {
		client := dial(b, which == 1)
		defer client.conn.Close()
		before := used()
		start := time.Now()
		size, err := client.get("")
		require.NoError(b, err)
		first[which] = append(first[which], time.Since(start).Seconds()*1e3)
		if !all {
			return
		}
		require.NoError(b, client.skip(size))
		spent[which] += time.Since(start)
		cpu[which] = append(cpu[which], (used().CPU-before.CPU).Seconds()/float64(size)*(1<<30))
		sent[which] += size
	}
	download(0, true) // fills the page cache
	download(1, true)
	spent, sent, first, cpu = [2]time.Duration{}, [2]int64{}, [2][]float64{}, [2][]float64{}
	begun, round := used(), 0
	for b.Loop() {
		download(round%2, true) // The order alternates, because each download affects the next one.
		download(1-round%2, true)
		round++
		for range 10 {
			download(0, false)
			download(1, false)
		}
	}
	median := func(values []float64) float64 {
		slices.Sort(values)
		return values[len(values)/2]
	}
	var ratios []float64 // one for each round
	for i, ofFile := range cpu[0] {
		ratios = append(ratios, cpu[1][i]/ofFile)
	}
	b.ReportMetric(median(ratios), "cpu-ratio")
	b.ReportMetric(median(cpu[1]), "image-cpu-s/GiB")
	b.ReportMetric(median(cpu[0]), "file-cpu-s/GiB")
	b.ReportMetric(median(first[1]), "image-first-byte-ms")
	b.ReportMetric(median(first[0]), "file-first-byte-ms")
	b.ReportMetric(float64(sent[1])/spent[1].Seconds()/1e6, "image-MB/s")
	b.ReportMetric(float64(sent[0])/spent[0].Seconds()/1e6, "file-MB/s")
	b.ReportMetric(float64(used().Written-begun.Written), "written-B")
	b.ReportMetric(float64(c.Ready.Microseconds())/1000, "ready-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkImageRanges reads small consecutive ranges on one connection, like a management
// controller that reads virtual media.
func BenchmarkImageRanges(b *testing.B) {
	c, used := startComparison(b, 64<<20)
	for _, size := range []int64{2 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			clients := [2]*rawClient{c.dial(b, false), c.dial(b, true)}
			var spent, cpu [2]time.Duration
			at, done := int64(0), 0
			round := func(which int) {
				before, start := used(), time.Now()
				for i := range int64(benchRound) {
					from := (at + i*size) % (64 << 20)
					n, err := clients[which].get(fmt.Sprintf("%d-%d", from, from+size-1))
					require.NoError(b, err)
					require.Equal(b, size, n)
					require.NoError(b, clients[which].skip(n))
				}
				spent[which] += time.Since(start)
				cpu[which] += used().CPU - before.CPU
			}
			round(0)
			round(1)
			spent, cpu = [2]time.Duration{}, [2]time.Duration{}
			for b.Loop() {
				round(0)
				round(1)
				at += benchRound * size
				done += benchRound
			}
			rate := func(which int) float64 { return float64(done) / spent[which].Seconds() }
			b.ReportMetric(rate(1), "image-ranges/s")
			b.ReportMetric(rate(0), "file-ranges/s")
			b.ReportMetric(rate(1)/rate(0), "ratio")
			b.ReportMetric(cpu[1].Seconds()*1e6/float64(done), "image-cpu-us")
			b.ReportMetric(cpu[0].Seconds()*1e6/float64(done), "file-cpu-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkImageCrowd keeps 64 and then 1,000 clients in the middle of a download at the same time.
// It measures the additional memory of the server.
func BenchmarkImageCrowd(b *testing.B) {
	c, used := startComparison(b, 256<<20)
	for _, size := range []int{64, 1000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			var most int64
			idle := used().RSS
			for b.Loop() {
				clients := make([]*rawClient, size)
				var reading sync.WaitGroup
				for i := range clients {
					clients[i] = c.dial(b, true)
					reading.Go(func() {
						if _, err := clients[i].get(""); err != nil {
							b.Error(err)
						}
						if err := clients[i].skip(16 << 20 / int64(size/64)); err != nil {
							b.Error(err)
						}
					})
				}
				reading.Wait()
				most = max(most, used().RSS-idle)
				for _, client := range clients {
					require.NoError(b, client.conn.Close())
				}
			}
			b.ReportMetric(float64(most)/(1<<20), "MiB-above-idle")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Parameters of [BenchmarkImageSlowClients].
const (
	slowClients = 1000
	slowPiece   = 4 << 10 // bytes that each client reads in a second
	slowTime    = time.Minute
	calmTime    = 10 * time.Second
)

// BenchmarkImageSlowClients has 1,000 clients download an image at 4 KiB a second for a minute,
// while another client reads ranges of 32 KiB as fast as possible. It measures the throughput of
// that client alone and with the others, and the CPU time of the others.
func BenchmarkImageSlowClients(b *testing.B) {
	c, used := startComparison(b, 64<<20)
	for b.Loop() {
		lively := c.dial(b, true)
		alone := lively.readRanges(b, calmTime)
		idle := used()
		slow := make([]*rawClient, slowClients)
		for i := range slow {
			slow[i] = c.dial(b, true)
			conn, ok := slow[i].conn.(*net.TCPConn)
			require.True(b, ok)
			// otherwise the system would buffer the image for the clients
			require.NoError(b, conn.SetReadBuffer(slowPiece))
			_, err := io.WriteString(conn, slow[i].request+"\r\n")
			require.NoError(b, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- readSlowly(slow) }()
		concurrent := lively.readRanges(b, slowTime)
		require.NoError(b, <-ended, "none was dropped")
		now := used()
		for _, client := range slow {
			require.NoError(b, client.conn.Close())
		}
		b.ReportMetric(float64(len(alone))/calmTime.Seconds(), "alone-ranges/s")
		b.ReportMetric(float64(len(concurrent))/slowTime.Seconds(), "beside-ranges/s")
		b.ReportMetric(percentile(alone, 99), "alone-p99-ms")
		b.ReportMetric(percentile(concurrent, 99), "beside-p99-ms")
		b.ReportMetric(percentile(concurrent, 100), "beside-slowest-ms")
		b.ReportMetric(float64(now.RSS-idle.RSS)/(1<<20), "MiB-above-idle")
		b.ReportMetric(0, "ns/op")
	}
}

// readSlowly reads at most slowPiece bytes for each client once a second. The receive buffers are
// small, so that the system does not receive much more in advance.
func readSlowly(clients []*rawClient) error {
	var reading errgroup.Group
	for _, client := range clients {
		reading.Go(func() error {
			second := time.NewTicker(time.Second)
			defer second.Stop()
			for end := time.Now().Add(slowTime); time.Now().Before(end); <-second.C {
				if _, err := client.conn.Read(client.buffer[:slowPiece]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return reading.Wait()
}

// readRanges reads ranges one after the other for some time, and returns the duration of each.
func (c *rawClient) readRanges(b *testing.B, during time.Duration) []time.Duration {
	const size = 32 << 10
	var took []time.Duration
	for at, start := int64(0), time.Now(); time.Since(start) < during; at += size {
		from, begin := at%(64<<20), time.Now()
		n, err := c.get(fmt.Sprintf("%d-%d", from, from+size-1))
		require.NoError(b, err)
		require.EqualValues(b, size, n)
		require.NoError(b, c.skip(n))
		took = append(took, time.Since(begin))
	}
	return took
}

// percentile returns a percentile in milliseconds.
func percentile(took []time.Duration, p int) float64 {
	slices.Sort(took)
	return took[(len(took)-1)*p/100].Seconds() * 1e3
}
