package appliance

import (
	"net/http"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// TestShortURL_scriptsWithoutAValidCode holds that no URL of a script has a code that was revoked
// or has expired: a machine would get nothing there.
func TestShortURL_scriptsWithoutAValidCode(t *testing.T) {
	g := newGuardedAmong(t, clockwork.NewRealClock(), surroundings{}, func(settings *config.Config) {
		settings.BootListen = "127.0.0.1:0"
	})
	files := "/api/assisted-install/v2/infra-envs/" + g.env + "/downloads/"
	scripts := []string{files + "files?file_name=ipxe-script&ipxe_script_type=boot-order-control",
		files + "files-presigned?file_name=ipxe-script"}
	code, _, err := g.engine.CodeOfImage(g.env)
	require.NoError(t, err)
	for _, path := range scripts {
		require.Contains(t, g.request(t, http.MethodGet, path, "", g.callers["operator"]).Body.String(),
			"/i/"+code+".ipxe", path)
	}
	for name, invalid := range map[string]record.ImageCode{
		"expired": {Given: true, Code: code, Expires: time.Now().Add(-time.Second)},
		"revoked": {Given: true},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, g.db.Update(t.Context(), func(tx *store.Tx) error {
				row, err := record.InfraEnvs.Get(tx, g.env)
				if err != nil {
					return err
				}
				row.Code = invalid
				return record.InfraEnvs.Put(tx, g.env, row)
			}))
			for _, path := range scripts {
				answer := g.request(t, http.MethodGet, path, "", g.callers["operator"])
				require.Equal(t, http.StatusNotFound, answer.Code, path)
				require.Contains(t, answer.Body.String(),
					"he short URL of infra-env "+g.env+" was revoked or has expired; renew it")
			}
			whole := g.request(t, http.MethodGet, files+"files?file_name=ipxe-script", "", g.callers["operator"])
			require.NotEqual(t, http.StatusNotFound, whole.Code, "a script that names no other script")
		})
	}
}
