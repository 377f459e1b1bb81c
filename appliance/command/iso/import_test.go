package iso

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/action"
	"landfall/appliance/command/commandtest"
	"landfall/appliance/osimage"
	"landfall/isogen/skeleton"
)

// newLibrary returns the library of an appliance, as a command with --url has it.
func newLibrary(t *testing.T, url string) *library {
	t.Helper()
	l := &library{action.New()}
	cmd := l.Reading(new(cobra.Command))
	require.NoError(t, cmd.Flags().Set("url", url))
	return l
}

// flaky forwards requests to an appliance. It breaks the connection of the first PATCH requests.
type flaky struct {
	next   http.Handler
	breaks atomic.Int32 // number of connections to break
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch && f.breaks.Add(-1) >= 0 {
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 1<<20), broken{}))
		f.next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	f.next.ServeHTTP(w, r)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the connection is broken") }

// forward returns a handler that forwards requests to a URL.
func forward(target string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.URL.Path, r.Body)
		if err != nil {
			panic(err)
		}
		request.Header = r.Header.Clone()
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		if _, err := io.Copy(w, response.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

func TestImport_retriesBrokenConnections(t *testing.T) {
	proxy := &flaky{next: forward(commandtest.StartAppliance(t))}
	proxy.breaks.Store(2)
	server := httptest.NewServer(proxy)
	defer server.Close()
	file := commandtest.LiveISO(t)
	content, err := os.Open(file)
	require.NoError(t, err)
	defer content.Close()
	var errOut bytes.Buffer
	o := &importer{errOut: &errOut, retryAfter: time.Millisecond, library: newLibrary(t, server.URL)}
	image, err := o.run(t.Context(), []string{"-"}, content)
	require.NoError(t, err)
	require.Equal(t, commandtest.DigestOf(t, file), image.SHA256)
	require.Contains(t, errOut.String(), "trying again in 1ms")
}

func TestFollow_saysThatApplianceTriesAgainAfterFailure(t *testing.T) {
	states := []osimage.Image{
		{State: osimage.StateWaiting, Message: "it is copied from another member of the fleet"},
		{State: osimage.StateDownloading, Message: "the download started over"},
		{State: osimage.StateWaiting, Message: "the last attempt failed: the server is busy"},
		{State: osimage.StateReady},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		image := states[0]
		states, image.ID = states[1:], "a1"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"os_images": []osimage.Image{image}})
	}))
	defer server.Close()
	var errOut bytes.Buffer
	_, err := newLibrary(t, server.URL).follow(t.Context(), osimage.Image{ID: "a1", State: osimage.StateWaiting},
		"fetching live.iso", &errOut, func(state osimage.State) bool { return state != osimage.StateReady })
	require.NoError(t, err)
	require.Contains(t, errOut.String(), "landfall: waiting (it is copied from another member of the fleet)\n"+
		"landfall: downloading (the download started over)\n"+
		"landfall: waiting (the last attempt failed: the server is busy); the appliance tries again until landfall "+
		"iso remove a1\n")
}

// forgetful forwards requests to an appliance. It loses the answer to the first PATCH request.
type forgetful struct {
	next http.Handler
	lost atomic.Bool
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch && !f.lost.Swap(true) {
		f.next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	f.next.ServeHTTP(w, r)
}

func TestImport_lastAnswerIsLost(t *testing.T) {
	server := httptest.NewServer(&forgetful{next: forward(commandtest.StartAppliance(t))})
	defer server.Close()
	file := commandtest.LiveISO(t)
	o := &importer{errOut: t.Output(), retryAfter: time.Millisecond, library: newLibrary(t, server.URL)}
	image, err := o.run(t.Context(), []string{file}, nil)
	require.NoError(t, err)
	require.Equal(t, commandtest.DigestOf(t, file), image.SHA256)
}

// interruptedImport begins the import of a file and returns the URL of the appliance and the file.
func interruptedImport(t *testing.T, version string) (url, file string) {
	t.Helper()
	url, file = commandtest.StartAppliance(t), filepath.Join(t.TempDir(), "live.iso")
	var content bytes.Buffer
	require.NoError(t, skeleton.Write(&content, skeleton.ISO{VolumeID: "rhcos-9.6.20260112-0"}))
	require.NoError(t, os.WriteFile(file, content.Bytes(), 0o600))
	o := &importer{errOut: t.Output(), library: newLibrary(t, url)}
	up := new(osimage.Upload)
	require.NoError(t, o.Call(t.Context(), http.MethodPost, osImagesPath+"/uploads", osimage.UploadRequest{
		Name: "live.iso", SizeBytes: int64(content.Len()), OpenshiftVersion: version}, up))
	_, err := o.send(t.Context(), up.ID, 0, 0, content.Bytes()[:1000])
	require.NoError(t, err)
	return url, file
}

func TestImport_continuesOnlyWithSameValues(t *testing.T) {
	for name, c := range map[string]struct {
		began, given string
		startsOver   bool
		want         string
	}{
		"the same version":    {began: "4.20", given: "4.20", want: "4.20"},
		"no version":          {began: "4.20", want: "4.20"},
		"another version":     {began: "4.19", given: "4.20", startsOver: true, want: "4.20"},
		"a version only then": {given: "4.20", startsOver: true, want: "4.20"},
	} {
		t.Run(name, func(t *testing.T) {
			url, file := interruptedImport(t, c.began)
			var errOut bytes.Buffer
			o := &importer{errOut: &errOut, library: newLibrary(t, url),
				announced: osimage.UploadRequest{OpenshiftVersion: c.given}}
			image, err := o.run(t.Context(), []string{file}, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, image.OpenshiftVersion)
			if c.startsOver {
				require.Contains(t, errOut.String(), "the import starts over")
			} else {
				require.Contains(t, errOut.String(), "continuing the import")
			}
			images, err := o.osImages(t.Context())
			require.NoError(t, err)
			require.Len(t, images, 1)
		})
	}
}

func TestImport_continuedWithWrongDigest(t *testing.T) {
	url, file := interruptedImport(t, "4.20")
	wrong := strings.Repeat("ab", 32)
	o := &importer{errOut: t.Output(), library: newLibrary(t, url), announced: osimage.UploadRequest{SHA256: wrong}}
	_, err := o.run(t.Context(), []string{file}, nil)
	require.EqualError(t, err, "live.iso has sha256 "+commandtest.DigestOf(t, file)+", but --sha256 is "+wrong+
		"; correct the digest, or name the right file")
	images, err := o.osImages(t.Context())
	require.NoError(t, err)
	require.Empty(t, images)
}
