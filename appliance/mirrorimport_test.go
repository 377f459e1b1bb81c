package appliance_test

import (
	"bytes"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/web/console"
)

const mirrorPath = "/api/landfall/v1/mirror"

// importMirror posts a document under a name.
func importMirror(t *testing.T, address, name string, document []byte) (status int, answer string) {
	t.Helper()
	response, err := http.Post(address+mirrorPath+"?name="+name, "application/octet-stream", bytes.NewReader(document))
	require.NoError(t, err)
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, body.String()
}

func TestImportedMirrorRulesReachHostsAndOutliveARestart(t *testing.T) {
	s := newSite(t)
	rules, err := os.ReadFile(s.config.Mirror.IDMSFiles[0])
	require.NoError(t, err)
	s.config.Mirror.IDMSFiles = nil
	address, stop := s.start(t)

	status, answer := importMirror(t, address, "idms.yaml", rules)
	require.Equal(t, http.StatusOK, status, answer)
	var env models.InfraEnv
	ask(t, http.MethodPost, address+apiPath+"/infra-envs", s.newInfraEnv("east")).read(t, http.StatusCreated, &env)
	requireDiscoveryISO(t, env.DownloadURL)
	stop()

	address, _ = s.start(t)
	var model console.MirrorModel
	ask(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.Len(t, model.Rules, 2)
	require.Equal(t, "idms.yaml", model.Imports[0].Name)
	require.Equal(t, http.StatusNoContent, ask(t, http.MethodDelete, address+mirrorPath+"/imports/idms.yaml", nil).status)
	model = console.MirrorModel{}
	ask(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.Empty(t, model.Rules)
	requireRefusal(t, ask(t, http.MethodDelete, address+mirrorPath+"/imports/idms.yaml", nil), http.StatusNotFound, "Nothing was imported")
}

func TestAnImportThatContradictsTheConfigurationIsRefusedAndChangesNothing(t *testing.T) {
	s := newSite(t)
	rules, err := os.ReadFile(s.config.Mirror.IDMSFiles[0])
	require.NoError(t, err)
	sealed := regexp.MustCompile(`(?m)^( *)(- )?mirrors:`).ReplaceAllString(string(rules), "$1${2}mirrorSourcePolicy: NeverContactSource\n$1  mirrors:")
	require.NoError(t, os.WriteFile(s.config.Mirror.IDMSFiles[0], []byte(sealed), 0o600))
	address, _ := s.start(t)

	status, answer := importMirror(t, address, "open.yaml", []byte(strings.ReplaceAll(sealed, "NeverContactSource", "AllowContactingSource")))
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)
	require.Contains(t, answer, "make them agree")
	status, answer = importMirror(t, address, "page.html", []byte("<html>not found</html>"))
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)
	var model console.MirrorModel
	ask(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.Empty(t, model.Imports)
}
