package image_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/web/image"
	"landfall/web/problem"
)

// token returns a JSON Web Token with the given claims. padding is appended to its parts, like the
// "=" of an encoder that does not follow RFC 7515.
func token(t testing.TB, claims map[string]any, padding bool) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	encoding := base64.RawURLEncoding
	if padding {
		encoding = base64.URLEncoding
	}
	return "eyJhbGciOiJFUzI1NiJ9." + encoding.EncodeToString(payload) + ".c2lnbmF0dXJl"
}

// TestToken_infraEnvID uses claims whose encoding contains the characters in which base64url
// differs from base64.
func TestToken_infraEnvID(t *testing.T) {
	i := build(t, base(t), "config")
	server := serve(t, &source{image: i})
	for path, claims := range map[string]map[string]any{
		"/byapikey/": {"infra_env_id": infraEnv, "note": "???>>>~~~ÿÿ"},
		"/bytoken/":  {"sub": infraEnv, "exp": 1, "note": "???>>>~~~ÿÿ"},
	} {
		for _, padding := range []bool{false, true} {
			response, _ := do(t, server, http.MethodHead, path+token(t, claims, padding)+"/4.19/x86_64/full.iso")
			require.Equal(t, http.StatusOK, response.StatusCode, path)
			require.Equal(t, i.ETag(), response.Header.Get("ETag"))
		}
	}
}

func TestToken_malformedIsRefused(t *testing.T) {
	server := serve(t, &source{image: build(t, base(t), "config")})
	for _, c := range []struct{ token, sentence string }{
		{"none", "not a JSON Web Token of three parts"},
		{"a.b.c.d", "not a JSON Web Token of three parts"},
		{"a.!!!.c", "not base64url"},
		{"a." + base64.RawURLEncoding.EncodeToString([]byte("text")) + ".c", "contains no JSON"},
		{token(t, map[string]any{"name": "x"}, false), "contains no infra-env"},
		{token(t, map[string]any{"sub": "../../etc/passwd"}, false), "contains no infra-env"},
	} {
		response, body := do(t, server, http.MethodGet, "/byapikey/"+c.token+"/4.19/x86_64/full.iso")
		requireProblem(t, response, body, http.StatusBadRequest, c.sentence)
	}
	response, body := do(t, server, http.MethodGet, "/bytoken/"+token(t,
		map[string]any{"sub": "3fa85f64-5717-4562-b3fc-2c963f66afa7"}, false)+"/4.19/x86_64/full.iso")
	requireProblem(t, response, body, http.StatusNotFound, "there is no infra-env")
}

func TestRoutes_deprecatedPaths(t *testing.T) {
	i := build(t, base(t), "config")
	server := serve(t, &source{image: i})
	for _, query := range []string{"", "?version=4.19&arch=x86_64", "?type=full-iso&version=4.19&api_key=x"} {
		response, _ := do(t, server, http.MethodHead, "/images/"+infraEnv+query)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, i.ETag(), response.Header.Get("ETag"))
		require.Equal(t, "no-store", response.Header.Get("Cache-Control"), "the image contains the pull secret")
	}
	response, body := do(t, server, http.MethodGet, "/images/"+infraEnv+"?type=minimal-iso")
	requireProblem(t, response, body, http.StatusConflict, "there is no minimal image")
	response, body = do(t, server, http.MethodGet, "/images/"+infraEnv+"?type=disconnected-iso")
	requireProblem(t, response, body, http.StatusBadRequest, "expected full-iso or minimal-iso")
	response, body = do(t, server, http.MethodGet, "/images/"+infraEnv+"/pxe-initrd")
	requireProblem(t, response, body, http.StatusConflict, "there is no initrd image")
	response, body = do(t, server, http.MethodGet, "/boot-artifacts/rootfs?version=4.19")
	requireProblem(t, response, body, http.StatusConflict, "there is no rootfs of 4.19 on x86_64")
	response, body = do(t, server, http.MethodGet, "/boot-artifacts/kernel")
	requireProblem(t, response, body, http.StatusBadRequest, "the query names no version")
	response, body = do(t, server, http.MethodGet, "/byid/"+infraEnv+"/4.19/arm64/rootfs.img")
	requireProblem(t, response, body, http.StatusConflict, "there is no rootfs of 4.19 on arm64")
	response, body = do(t, server, http.MethodGet, "/config/"+infraEnv+".iso")
	requireProblem(t, response, body, http.StatusConflict, "there is no config image")
	response, _ = do(t, server, http.MethodGet, "/config/"+infraEnv)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}

func TestBootScript_namesRequestNetwork(t *testing.T) {
	server, _ := serveWith(t, image.Options{
		Source: &source{image: build(t, base(t), "config"), code: "abcdefghijklmnop"},
		Networks: discovery.Networks{
			{URL: "https://bastion.example.com", Boot: "http://bastion.example.com:8091"},
			{URL: "http://192.0.2.1:8090", Boot: "http://192.0.2.1:8091"},
			{URL: "http://[2001:db8::1]:8090", Boot: "http://[2001:db8::1]:8091"},
		},
	})
	getScript := func(host, path string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		request.Host = host
		response, body := answerOf(t, server, request)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
		return string(body)
	}
	for host, boot := range map[string]string{
		"bastion.example.com":      "http://bastion.example.com:8091",
		"BASTION.example.com":      "http://bastion.example.com:8091",
		"192.0.2.1:8090":           "http://192.0.2.1:8091",
		"192.0.2.1:8091":           "http://192.0.2.1:8091",
		"192.0.2.1":                "http://192.0.2.1:8091",
		"[2001:db8::1]:8091":       "http://[2001:db8::1]:8091",
		"[2001:db8::1]":            "http://[2001:db8::1]:8091",
		"somebody.else":            "http://bastion.example.com:8091",
		"":                         "http://bastion.example.com:8091",
		"bastion.example.com:9999": "http://bastion.example.com:8091",
	} {
		require.Equal(t, "ipxe "+infraEnv+" boot-order-control 52:54:00:00:00:01 "+boot+"/ipxe/"+infraEnv,
			getScript(host, "/ipxe/"+infraEnv+"?ipxe_script_type=boot-order-control&mac=52:54:00:00:00:01"), host)
	}
	require.Equal(t, "grub "+infraEnv+"   http://192.0.2.1:8091/grub/"+infraEnv+"/grub.cfg",
		getScript("192.0.2.1:8091", "/grub/"+infraEnv+"/grub.cfg"))
	require.Equal(t, "ipxe "+infraEnv+"   http://192.0.2.1:8091/i/abcdefghijklmnop.ipxe",
		getScript("192.0.2.1:8091", "/i/abcdefghijklmnop.ipxe"))
	response, _ := do(t, server, http.MethodGet, "/i/abcdefghijklmnoq.ipxe")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}

func TestHealth(t *testing.T) {
	src := &source{}
	server := serve(t, src)
	for _, path := range []string{"/health", "/live"} {
		response, _ := do(t, server, http.MethodGet, path)
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	src.err = problem.Unavailable("no OS image is ready yet")
	response, body := do(t, server, http.MethodGet, "/health")
	requireProblem(t, response, body, http.StatusServiceUnavailable, "no OS image is ready yet")
	response, _ = do(t, server, http.MethodGet, "/live")
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// verifier accepts one token.
type verifier struct {
	mu    sync.Mutex
	valid string
}

func (v *verifier) VerifyImage(token string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if token != v.valid {
		return "", problem.Unauthorized("the token was revoked")
	}
	return infraEnv, nil
}

func (v *verifier) revoke() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.valid = "another"
}

// TestToken_isVerified reads an image in ranges with a token, which is revoked between two of them.
func TestToken_isVerified(t *testing.T) {
	i := build(t, base(t), "config")
	v := &verifier{valid: "e30.e30.good"}
	server, _ := serveWith(t, image.Options{Source: &source{image: i}, Tokens: v})
	const files = "/4.19/x86_64/"
	forged := token(t, map[string]any{"infra_env_id": infraEnv}, false)
	for _, prefix := range []string{"/byapikey/", "/bytoken/"} {
		for _, file := range []string{"full.iso", "full.iso.sha256", "minimal.iso", "initrd.img", "initrd.addrsize"} {
			response, _ := do(t, server, http.MethodGet, prefix+forged+files+file)
			require.Equal(t, http.StatusUnauthorized, response.StatusCode)
		}
		for _, file := range []string{"rootfs.img", "kernel", "ins-file"} {
			response, body := do(t, server, http.MethodGet, prefix+forged+files+file)
			requireProblem(t, response, body, http.StatusConflict, "there is no ") // no token is required
		}
	}
	path := "/byapikey/" + v.valid + files + "full.iso"
	for _, ranges := range []string{"bytes=0-9", "bytes=10-19"} {
		response, _ := do(t, server, http.MethodGet, path, "Range", ranges)
		require.Equal(t, http.StatusPartialContent, response.StatusCode)
	}
	v.revoke()
	response, body := do(t, server, http.MethodGet, path, "Range", "bytes=20-29")
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.Contains(t, string(body), "the token was revoked")
}

func TestShortURL_bootFiles(t *testing.T) {
	src := &source{image: build(t, base(t), "config"), code: "abcdefghijklmnop"}
	server := serve(t, src)
	response, body := do(t, server, http.MethodGet, "/i/abcdefghijklmnop/grub.cfg")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, string(body), "grub "+infraEnv)
	response, body = do(t, server, http.MethodGet, "/i/abcdefghijklmnop/config.iso")
	requireProblem(t, response, body, http.StatusConflict, "there is no config image")
	for _, path := range []string{"/i/abcdefghijklmnop/shadow", "/i/wrong/grub.cfg", "/i/wrong/config.iso"} {
		response, _ = do(t, server, http.MethodGet, path)
		require.Equal(t, http.StatusNotFound, response.StatusCode)
	}
}
