package view

import (
	"net/url"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// InfraEnv returns an infra-env in the form of the API.
func (r *Reader) InfraEnv(id string) (*models.InfraEnv, error) {
	row, err := record.ReadInfraEnv(r.db, id)
	if err != nil {
		return nil, err
	}
	return &row.API, nil
}

// InfraEnvs returns the infra-envs of a cluster, or all if the id is "".
func (r *Reader) InfraEnvs(clusterID string) ([]*models.InfraEnv, error) {
	return InfraEnvs(r.db, clusterID)
}

// InfraEnvs returns the infra-envs of a cluster in a store, or all if the id is "".
func InfraEnvs(db *store.DB, clusterID string) ([]*models.InfraEnv, error) {
	envs := []*models.InfraEnv{}
	err := db.View(func(tx *store.Tx) error {
		return record.InfraEnvs.Each(tx, "", func(_ string, row *record.InfraEnv) error {
			if clusterID == "" || row.API.ClusterID.String() == clusterID {
				envs = append(envs, &row.API)
			}
			return nil
		})
	})
	return envs, err
}

// ImageToken returns the token for the URLs of an infra-env's images and files. It is "" if the
// appliance does not authenticate machines.
func (r *Reader) ImageToken(infraEnvID string) (string, error) {
	if r.tokens == nil {
		return "", nil
	}
	row, err := record.ReadInfraEnv(r.db, infraEnvID)
	if err != nil {
		return "", err
	}
	if row.AgentKeys.Current == nil {
		return "", fault.New(fault.Unavailable,
			"The signing key of infra-env %s is not generated yet; repeat the request in a moment.", infraEnvID)
	}
	return r.tokens.Token(&row.AgentKeys, infraEnvID, machine.ForImage)
}

// ImagePath returns the prefix of the paths of an infra-env's images, with a token if the appliance
// authenticates machines.
func (r *Reader) ImagePath(infraEnvID string) (string, error) {
	token, err := r.ImageToken(infraEnvID)
	if err != nil || token == "" {
		return "/byid/" + infraEnvID, err
	}
	return "/byapikey/" + token, nil
}

// InitrdPath returns the path of the initial RAM disk of an infra-env, by the image service's own
// path or by one with a token. The latter has no query, because some boot loaders split URLs at an
// ampersand.
func (r *Reader) InitrdPath(infraEnvID, version, arch string) (string, error) {
	token, err := r.ImageToken(infraEnvID)
	return initrdPath(infraEnvID, token, version, arch), err
}

func initrdPath(infraEnvID, token, version, arch string) string {
	if token != "" {
		return "/byapikey/" + token + "/" + version + "/" + arch + "/initrd.img"
	}
	return "/images/" + infraEnvID + "/pxe-initrd?" + url.Values{"arch": {arch}, "version": {version}}.Encode()
}

// InitrdPath returns the path of the initial RAM disk, see [Reader.InitrdPath].
func (e *InfraEnv) InitrdPath() string {
	return initrdPath(e.ID.String(), e.Token, e.OpenshiftVersion, e.CPUArchitecture)
}

// ScriptPath returns the path of the iPXE script of an infra-env, with the code of its short URL if
// it has one. The script is of a type, or of the usual type for "".
func ScriptPath(infraEnvID, code, script string) string {
	path := "/ipxe/" + infraEnvID
	if code != "" {
		path = "/i/" + code + ".ipxe"
	}
	if script != "" {
		path += "?" + url.Values{"ipxe_script_type": {script}}.Encode()
	}
	return path
}

// ScriptPath returns the path of the iPXE script, with a code if machines are authenticated. The
// path is "" if they are, but the code was revoked or has expired.
func (e *InfraEnv) ScriptPath(script string, now time.Time) string {
	if e.Token != "" && (e.code.Code == "" || e.code.IsExpired(now)) {
		return ""
	}
	return ScriptPath(e.ID.String(), e.code.Code, script)
}

// UntilExpiry returns the time until the code in ScriptPath expires. It returns 0 if the path has
// no code that will expire.
func (e *InfraEnv) UntilExpiry(now time.Time) time.Duration {
	if e.code.Code == "" || e.code.Expires.IsZero() {
		return 0
	}
	return max(0, e.code.Expires.Sub(now))
}

// RecipeDigest returns the digest of an infra-env's recipe, or "" if the recipe is not frozen. It
// is cheap enough for a call at each request.
func (r *Reader) RecipeDigest(infraEnvID string) (string, error) {
	row, err := record.ReadInfraEnv(r.db, infraEnvID)
	if err != nil {
		return "", err
	}
	return row.Recipe.Digest, nil
}
