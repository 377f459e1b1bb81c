package api

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/recipe"
	"landfall/appliance/engine/view"
	"landfall/ignition"
	"landfall/isogen"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Files of an infra-env.
const (
	fileDiscovery     = "discovery.ign"
	fileIPXE          = "ipxe-script"
	fileStaticNetwork = "static-network-config"
)

// Types of iPXE scripts.
const (
	alwaysDiscovery  = "discovery-image-always"
	bootOrderControl = "boot-order-control"
)

// infraEnvFileOperations returns the operations on the files and the image URL of an infra-env.
func (s *Service) infraEnvFileOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "v2DownloadInfraEnvFiles", Method: http.MethodGet, Path: infraEnvPath + "/downloads/files",
			Access: operation.For(access.Operator).OrAgents().OrLinks().WithSecret(), Handler: s.downloadInfraEnvFile,
			Summary: "Download a file of an infra-env",
			Parameters: []operation.Parameter{
				{Name: "file_name", Required: true, Values: []string{"discovery.ign", "ipxe-script",
					"static-network-config"}},
				{Name: "mac"},
				{Name: "ipxe_script_type", Values: []string{"discovery-image-always", "boot-order-control"}},
				{Name: "discovery_iso_type", Values: []string{"full-iso", "minimal-iso", "disconnected-iso"}},
			},
			Status: 200, Answer: operation.File{}, Errors: []int{400, 401, 403, 404, 405, 409, 500, 501, 503}},
		{ID: "GetInfraEnvPresignedFileURL", Method: http.MethodGet, Path: infraEnvPath + "/downloads/files-presigned",
			Access: operation.For(access.Operator).WithSecret(), Handler: s.infraEnvFileURL,
			Summary: "Get a link to a file of an infra-env",
			Parameters: []operation.Parameter{
				{Name: "file_name", Required: true, Values: []string{"discovery.ign", "ipxe-script"}},
				{Name: "ipxe_script_type", Values: []string{"discovery-image-always", "boot-order-control"}},
			},
			Status: 200, Answer: models.PresignedURL{}, Errors: []int{401, 403, 404, 405, 500, 501, 503}},
		{ID: "GetInfraEnvDownloadURL", Method: http.MethodGet, Path: infraEnvPath + "/downloads/image-url",
			Access: operation.For(access.Operator), Handler: s.imageURL, FromCopy: true,
			Summary: "Get the URL of an infra-env's image",
			Status:  200, Answer: models.PresignedURL{}, Errors: []int{400, 401, 403, 404, 405, 500, 501, 503}},
		{ID: "DownloadMinimalInitrd", Method: http.MethodGet, Path: infraEnvPath + "/downloads/minimal-initrd",
			Access: operation.For(access.Operator).OrLinks(), Handler: s.downloadMinimalInitrd, FromCopy: true,
			Summary: "Download the files that a minimal image adds to its initrd",
			Status:  200, NoContent: true, Answer: operation.File{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "RegenerateInfraEnvSigningKey", Method: http.MethodPost, Path: infraEnvPath + "/regenerate-signing-key",
			Access: operation.For(access.Operator), Handler: s.regenerateSigningKey,
			Summary: "Invalidate the image URLs of an infra-env that were handed out",
			Status:  204, Errors: []int{401, 403, 404, 405, 500}},
	}
}

func (s *Service) imageURL(c echo.Context) error {
	env, err := s.Engine.InfraEnv(infraEnvID(c))
	if err == nil {
		err = s.addTokens(c, env)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, &models.PresignedURL{URL: &env.DownloadURL, ExpiresAt: strfmt.DateTime(time.Time{})})
}

// infraEnvFile reads the name of the requested file and, for an iPXE script, its type.
func infraEnvFile(c echo.Context, names ...string) (name, script string, err error) {
	if name, err = required(c, "file_name"); err != nil {
		return "", "", err
	}
	if _, err := oneOf(c, "file_name", names...); err != nil {
		return "", "", err
	}
	if script, err = oneOf(c, "ipxe_script_type", alwaysDiscovery, bootOrderControl); err != nil {
		return "", "", err
	}
	if script != "" && name != fileIPXE {
		return "", "", problem.BadRequest("ipxe_script_type is valid for the file %s only; leave it out", fileIPXE)
	}
	return name, script, nil
}

// infraEnvFileURL returns the URL of a download, with a token if the appliance authenticates
// clients.
func (s *Service) infraEnvFileURL(c echo.Context) error {
	name, script, err := infraEnvFile(c, fileDiscovery, fileIPXE)
	if err != nil {
		return err
	}
	if _, err := s.Engine.InfraEnv(infraEnvID(c)); err != nil {
		return err
	}
	address, err := s.fileURL(infraEnvID(c), name, script)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, &models.PresignedURL{URL: &address, ExpiresAt: strfmt.DateTime(time.Time{})})
}

// downloadInfraEnvFile serves the small files of an infra-env. Images have separate URLs.
func (s *Service) downloadInfraEnvFile(c echo.Context) error {
	name, script, err := infraEnvFile(c, fileDiscovery, fileIPXE, fileStaticNetwork)
	if err != nil {
		return err
	}
	// The discovery config is the same for all types of images.
	if _, err := oneOf(c, "discovery_iso_type", string(models.ImageTypeFullIso), string(models.ImageTypeMinimalIso),
		string(models.ImageTypeDisconnectedIso)); err != nil {
		return err
	}
	switch name {
	case fileIPXE:
		return s.downloadIPXEScript(c, script)
	case fileStaticNetwork:
		return s.downloadStaticNetwork(c)
	}
	recipe, err := s.Engine.Recipe(c.Request().Context(), infraEnvID(c))
	if err != nil {
		return err
	}
	sendBytes(c, name, recipe.Modified, recipe.Ignition)
	return nil
}

// downloadIPXEScript returns the iPXE script that boots the discovery image. With
// boot-order-control, the script makes the machine send another request with its MAC address; an
// installed machine then receives 404, so that it boots from its disk.
func (s *Service) downloadIPXEScript(c echo.Context, kind string) error {
	mac := c.QueryParam("mac")
	if mac != "" {
		parsed, err := net.ParseMAC(mac)
		if err != nil {
			return unfit("the parameter mac in query is %q, which is not a MAC address", mac)
		}
		mac = parsed.String()
	}
	recipe, err := s.Engine.Recipe(c.Request().Context(), infraEnvID(c))
	if err != nil {
		return err
	}
	boot, err := s.networkBoot(recipe)
	if err != nil {
		return err
	}
	var script string
	switch {
	case mac == "" && kind == bootOrderControl:
		address, urlErr := s.fileURL(recipe.InfraEnvID, fileIPXE, "")
		if urlErr != nil {
			return urlErr
		}
		script, err = isogen.IPXEChain(address)
	case mac != "":
		if err := s.Engine.CheckNetworkBoot(recipe.InfraEnvID, mac); err != nil {
			return err
		}
		fallthrough
	default:
		script, err = isogen.IPXEScript(boot)
	}
	if err != nil {
		return problem.Conflict("infra-env %s has no iPXE script: %s", recipe.Name, err)
	}
	sendBytes(c, recipe.InfraEnvID+"-"+fileIPXE, recipe.Modified, []byte(script))
	return nil
}

// networkBoot returns the URLs of a recipe's live system, with the paths of the Assisted
// Installer's image service.
func (s *Service) networkBoot(recipe *recipe.Recipe) (isogen.NetworkBoot, error) {
	initrd, err := s.Engine.InitrdPath(recipe.InfraEnvID, recipe.OpenshiftVersion, recipe.CPUArchitecture)
	if err != nil {
		return isogen.NetworkBoot{}, err
	}
	of := "?" + url.Values{"version": {recipe.OpenshiftVersion}, "arch": {recipe.CPUArchitecture}}.Encode()
	boot := isogen.NetworkBoot{
		KernelURL: s.bootURL() + "/boot-artifacts/kernel" + of,
		RootfsURL: s.bootURL() + "/boot-artifacts/rootfs" + of,
		InitrdURL: s.bootURL() + initrd,
	}
	for _, a := range recipe.KernelArguments {
		boot.Arguments = append(boot.Arguments, isogen.KernelArgument{Operation: isogen.Operation(a.Operation),
			Value: a.Value})
	}
	return boot, nil
}

func (s *Service) bootURL() string { return cmp.Or(s.BootURL, s.Engine.URL()) }

// fileURL returns the URL of a small file of an infra-env. Boot loaders get scripts from the boot
// listener.
func (s *Service) fileURL(infraEnvID, name, script string) (string, error) {
	token, err := s.Engine.ImageToken(infraEnvID)
	if err != nil {
		return "", err
	}
	if name == fileIPXE && s.bootURL() != s.Engine.URL() {
		code := ""
		if token != "" {
			if code, _, err = s.Engine.CodeOfImage(infraEnvID); err != nil {
				return "", err
			}
			if code == "" {
				return "", problem.NotFound("the short URL of infra-env %s was revoked or has expired; renew it",
					infraEnvID)
			}
		}
		return s.bootURL() + view.ScriptPath(infraEnvID, code, script), nil
	}
	query := url.Values{"file_name": {name}}
	if script != "" {
		query.Set("ipxe_script_type", script)
	}
	if token != "" {
		query.Set("api_key", token)
	}
	return s.Engine.URL() + BasePath + "/v2/infra-envs/" + infraEnvID + "/downloads/files?" + query.Encode(), nil
}

// downloadStaticNetwork returns a tar archive of the hosts' network files, or an empty body if all
// hosts use DHCP. Accounts that may not read secrets get hidden passwords.
func (s *Service) downloadStaticNetwork(c echo.Context) error {
	env, err := s.Engine.InfraEnv(infraEnvID(c))
	if err != nil {
		return err
	}
	shown := *env
	if mustHide(c) {
		shown.StaticNetworkConfig = description.HideNetworkSecrets(env.StaticNetworkConfig)
	}
	files, err := recipe.StaticNetworkFiles(&shown)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if len(files) > 0 {
		if err := writeTar(&archive, files); err != nil {
			return err
		}
	}
	sendBytes(c, infraEnvID(c)+"-"+fileStaticNetwork+".tar", *env.UpdatedAt, archive.Bytes())
	return nil
}

func writeTar(to *bytes.Buffer, files []ignition.File) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: "/" + f.Path, Mode: int64(f.Mode),
			Size: int64(len(f.Data))}); err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	return w.Close()
}

// downloadMinimalInitrd returns the files that minimal images add to the initial RAM file system,
// or 204 if there are none.
func (s *Service) downloadMinimalInitrd(c echo.Context) error {
	recipe, err := s.Engine.Recipe(c.Request().Context(), infraEnvID(c))
	if err != nil {
		return err
	}
	if len(recipe.Files) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	var files []isogen.File
	for _, f := range recipe.Files {
		files = append(files, isogen.File{Path: f.Path, Mode: fs.FileMode(f.Mode), Data: f.Data})
	}
	archive, err := isogen.Archive(files)
	if err != nil {
		return err
	}
	sendBytes(c, "minimal-initrd.img", recipe.Modified, archive)
	return nil
}

// sendBytes sends a small file, which contains a secret. It supports ranges and conditional
// requests.
func sendBytes(c echo.Context, name string, modified time.Time, content []byte) {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMEOctetStream)
	header.Set(echo.HeaderCacheControl, "no-store")
	attach(c, name)
	http.ServeContent(c.Response(), c.Request(), "", modified, bytes.NewReader(content))
}

// regenerateSigningKey invalidates the image URLs of an infra-env that were handed out: the short
// URL and the URLs with a token. The hosts of the infra-env may use their tokens for some more
// time.
func (s *Service) regenerateSigningKey(c echo.Context) error {
	if s.Agents.Enabled() {
		if _, err := s.Agents.Renew(c.Request().Context(), infraEnvID(c), 0); err != nil {
			return err
		}
	}
	_, _, err := s.Engine.RenewImageCode(c.Request().Context(), infraEnvID(c), 0)
	return done(c, err)
}
