package api

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/recipe"
	"landfall/ignition"
	"landfall/isogen"
	"landfall/web/problem"
)

// The files of an infra-env.
const (
	fileDiscovery     = "discovery.ign"
	fileIPXE          = "ipxe-script"
	fileStaticNetwork = "static-network-config"
)

// The kinds of iPXE scripts.
const (
	alwaysDiscovery  = "discovery-image-always"
	bootOrderControl = "boot-order-control"
)

func (s *Service) imageURL(c echo.Context) error {
	env, err := s.Engine.InfraEnv(infraEnvID(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, &models.PresignedURL{URL: &env.DownloadURL, ExpiresAt: strfmt.DateTime(time.Time{})})
}

// infraEnvFile reads which file a request is for, and of what kind if it is a script.
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
		return "", "", problem.BadRequest("ipxe_script_type goes with the file %s only; leave it out", fileIPXE)
	}
	return name, script, nil
}

// infraEnvFileURL answers with the URL of a download: nothing needs to be signed, the file is here.
func (s *Service) infraEnvFileURL(c echo.Context) error {
	name, script, err := infraEnvFile(c, fileDiscovery, fileIPXE)
	if err != nil {
		return err
	}
	if _, err := s.Engine.InfraEnv(infraEnvID(c)); err != nil {
		return err
	}
	address := s.fileURL(infraEnvID(c), name, script)
	return c.JSON(http.StatusOK, &models.PresignedURL{URL: &address, ExpiresAt: strfmt.DateTime(time.Time{})})
}

// downloadInfraEnvFile serves the parts of an infra-env that are small; images have URLs of their
// own.
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

// downloadIPXEScript answers with what iPXE boots the discovery image by. With boot-order-control
// it only has the machine ask again with its MAC address, and a machine that was installed gets 404
// then, so that it goes on to its disk.
func (s *Service) downloadIPXEScript(c echo.Context, kind string) error {
	mac := c.QueryParam("mac")
	if mac != "" {
		parsed, err := net.ParseMAC(mac)
		if err != nil {
			return unfit("the parameter mac in query is %q, which is no MAC address", mac)
		}
		mac = parsed.String()
	}
	recipe, err := s.Engine.Recipe(c.Request().Context(), infraEnvID(c))
	if err != nil {
		return err
	}
	var script string
	switch {
	case mac == "" && kind == bootOrderControl:
		script, err = isogen.IPXEChain(s.fileURL(recipe.InfraEnvID, fileIPXE, ""))
	case mac != "":
		if err := s.Engine.CheckNetworkBoot(recipe.InfraEnvID, mac); err != nil {
			return err
		}
		fallthrough
	default:
		script, err = isogen.IPXEScript(s.networkBoot(recipe))
	}
	if err != nil {
		return problem.Conflict("there is no iPXE script of infra-env %s: %s", recipe.Name, err)
	}
	sendBytes(c, recipe.InfraEnvID+"-"+fileIPXE, recipe.Modified, []byte(script))
	return nil
}

// networkBoot is where a machine fetches its live system from, by the paths of the Assisted
// Installer's image service.
func (s *Service) networkBoot(recipe *recipe.Recipe) isogen.NetworkBoot {
	of := "?" + url.Values{"version": {recipe.OpenshiftVersion}, "arch": {recipe.CPUArchitecture}}.Encode()
	boot := isogen.NetworkBoot{
		KernelURL: s.Engine.URL() + "/boot-artifacts/kernel" + of,
		RootfsURL: s.Engine.URL() + "/boot-artifacts/rootfs" + of,
		InitrdURL: s.Engine.URL() + "/images/" + recipe.InfraEnvID + "/pxe-initrd" + of,
	}
	for _, a := range recipe.KernelArguments {
		boot.Arguments = append(boot.Arguments, isogen.KernelArgument{Operation: isogen.Operation(a.Operation),
			Value: a.Value})
	}
	return boot
}

func (s *Service) fileURL(infraEnvID, name, script string) string {
	query := url.Values{"file_name": {name}}
	if script != "" {
		query.Set("ipxe_script_type", script)
	}
	return s.Engine.URL() + BasePath + "/v2/infra-envs/" + infraEnvID + "/downloads/files?" + query.Encode()
}

// downloadStaticNetwork answers with a tar of the hosts' network files, and with nothing when they
// all use DHCP.
func (s *Service) downloadStaticNetwork(c echo.Context) error {
	env, err := s.Engine.InfraEnv(infraEnvID(c))
	if err != nil {
		return err
	}
	files, err := s.Engine.StaticNetworkFiles(infraEnvID(c))
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

// downloadMinimalInitrd answers with what minimal images add to the initial RAM file system, or 204
// when that is nothing.
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

// sendBytes answers with a small file, ranges and conditional requests included.
func sendBytes(c echo.Context, name string, modified time.Time, content []byte) {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMEOctetStream)
	header.Set(echo.HeaderCacheControl, "no-cache")
	attach(c, name)
	http.ServeContent(c.Response(), c.Request(), "", modified, bytes.NewReader(content))
}

// regenerateSigningKey ends the addresses of an infra-env's image that were handed out: the one of
// them that can't be guessed is the short URL.
func (s *Service) regenerateSigningKey(c echo.Context) error {
	_, _, err := s.Engine.RenewImageCode(c.Request().Context(), infraEnvID(c), 0)
	return done(c, err)
}
