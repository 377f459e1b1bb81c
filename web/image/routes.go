package image

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/discovery"
	"landfall/web/problem"
)

// Paths of an infra-env's images begin in one of these ways; the rest is /{version}/{arch}/{file}.
const (
	byID     = "/byid/:infra_env_id"
	byAPIKey = "/byapikey/:token"
	byToken  = "/bytoken/:token"
)

// shortPath begins the short URLs.
const shortPath = "/i/"

// Register adds the routes. Methods other than GET and HEAD are refused by the router.
//
//	/byid/{infra_env_id}/{version}/{arch}/{full|minimal}.iso[.sha256]
//	/byid/{infra_env_id}/{version}/{arch}/{kernel|initrd.img|rootfs.img|ins-file|initrd.addrsize}
//	/byapikey/{token}/…, /bytoken/{token}/…           the same, by a token that names the infra-env
//	/images/{infra_env_id}?version=&arch=&type=        full-iso or minimal-iso
//	/images/{infra_env_id}/{pxe-initrd|s390x-initrd-addrsize}?version=&arch=
//	/boot-artifacts/{kernel|rootfs|ins-file}?version=&arch=
//	/i/{code}.iso[.sha256]                             the image of the infra-env's type, for virtual media
//	/i/{code}.ipxe, /ipxe/{infra_env_id}               an iPXE script
//	/grub/{infra_env_id}/grub.cfg                      a GRUB menu
//	/config/{infra_env_id}.iso                         an image of the config alone
//	/health, /live
func (s *Service) Register(e *echo.Echo) {
	get := func(path string, h echo.HandlerFunc) {
		e.GET(path, h)
		e.HEAD(path, h)
	}
	for _, prefix := range []string{byID, byAPIKey, byToken} {
		prefix += "/:version/:arch/"
		for file, kind := range map[string]discovery.Kind{"full.iso": discovery.Full, "minimal.iso": discovery.Minimal, "initrd.img": discovery.Initrd,
			"initrd.addrsize": discovery.InitrdAddrSize} {
			find := s.image(kind)
			get(prefix+file, s.answer(find))
			get(prefix+file+".sha256", s.digest(find))
		}
		for file, kind := range map[string]discovery.Kind{"kernel": discovery.Kernel, "rootfs.img": discovery.RootFS, "ins-file": discovery.InsFile} {
			get(prefix+file, s.answer(s.artifact(kind)))
		}
	}
	get("/images/:infra_env_id", s.answer(s.imageByType))
	get("/images/:infra_env_id/pxe-initrd", s.answer(s.image(discovery.Initrd)))
	get("/images/:infra_env_id/s390x-initrd-addrsize", s.answer(s.image(discovery.InitrdAddrSize)))
	for _, kind := range []discovery.Kind{discovery.Kernel, discovery.RootFS, discovery.InsFile} {
		get("/boot-artifacts/"+string(kind), s.answer(s.artifact(kind)))
	}
	get(shortPath+":file", s.short)
	get("/ipxe/:infra_env_id", s.script(discovery.IPXE))
	get("/grub/:infra_env_id/grub.cfg", s.script(discovery.GRUB))
	get("/config/:file", s.answer(s.config))
	get("/health", s.health)
	get("/live", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
}

// Quiet tells the routes that machines read from in hundreds of requests a second.
func Quiet(_, route string) bool {
	for _, prefix := range []string{"/byid/", "/byapikey/", "/bytoken/", "/images/", "/boot-artifacts/", shortPath,
		"/config/", "/health", "/live"} {
		if strings.HasPrefix(route, prefix) {
			return true
		}
	}
	return false
}

// id is the infra-env that a path names, by itself or in a token.
func id(c echo.Context) (string, error) {
	if token := c.Param("token"); token != "" {
		return infraEnvOf(token)
	}
	return c.Param("infra_env_id"), nil
}

func (s *Service) image(kind discovery.Kind) find {
	return func(c echo.Context, network discovery.Network) (*discovery.Image, error) {
		infraEnvID, err := id(c)
		if err != nil {
			return nil, err
		}
		return s.options.Source.Image(c.Request().Context(), infraEnvID, kind, network)
	}
}

func (s *Service) imageByType(c echo.Context, network discovery.Network) (*discovery.Image, error) {
	kind, known := map[string]discovery.Kind{"": discovery.Full, "full-iso": discovery.Full, "minimal-iso": discovery.Minimal}[c.QueryParam("type")]
	if !known {
		return nil, problem.BadRequest("type is %q; expected full-iso or minimal-iso", shortened(c.QueryParam("type")))
	}
	return s.image(kind)(c, network)
}

// artifact finds what depends on the base ISO alone, by the version and architecture in the path or
// in the query.
func (s *Service) artifact(kind discovery.Kind) find {
	return func(c echo.Context, _ discovery.Network) (*discovery.Image, error) {
		version, arch := c.Param("version"), c.Param("arch")
		if version == "" {
			version, arch = c.QueryParam("version"), c.QueryParam("arch")
		}
		if version == "" {
			return nil, problem.BadRequest("the query names no version; add ?version=4.20&arch=x86_64")
		}
		if arch == "" {
			arch = "x86_64"
		}
		artifact, err := s.options.Source.BootFile(c.Request().Context(), version, arch, kind)
		if err != nil {
			return nil, err
		}
		if infraEnvID, err := id(c); err == nil && infraEnvID != "" {
			return belongingTo(artifact, infraEnvID), nil
		}
		return artifact, nil
	}
}

// belongingTo is an artifact that is read by a machine of an infra-env.
func belongingTo(i *discovery.Image, infraEnvID string) *discovery.Image {
	return &discovery.Image{Image: i.Image, InfraEnvID: infraEnvID, Kind: i.Kind, FileName: i.FileName, Modified: i.Modified,
		Digest: i.Digest}
}

func (s *Service) config(c echo.Context, network discovery.Network) (*discovery.Image, error) {
	infraEnvID, ok := strings.CutSuffix(c.Param("file"), ".iso")
	if !ok {
		return nil, problem.NotFound("%s is no image; its name ends in .iso", c.Request().URL.Path)
	}
	return s.options.Source.Image(c.Request().Context(), infraEnvID, discovery.Config, network)
}

// short answers a short URL with what its ending asks for. The kind of image is the infra-env's
// own. The code is looked at for every request, so that one that was revoked or has expired ends
// its readers, too.
func (s *Service) short(c echo.Context) error {
	text, ending, _ := strings.Cut(c.Param("file"), ".")
	if ending != "iso" && ending != "iso.sha256" && ending != "ipxe" {
		return problem.NotFound("%s is no image; a short URL ends in .iso", c.Request().URL.Path)
	}
	infraEnvID, err := s.codes.infraEnv(c.Request().Context(), text)
	if err != nil {
		return err
	}
	find := func(c echo.Context, network discovery.Network) (*discovery.Image, error) {
		return s.options.Source.Image(c.Request().Context(), infraEnvID, "", network)
	}
	switch ending {
	case "iso":
		return s.answer(find)(c)
	case "iso.sha256":
		return s.digest(find)(c)
	}
	return s.sendScript(c, infraEnvID, discovery.IPXE)
}

func (s *Service) script(format discovery.ScriptFormat) echo.HandlerFunc {
	return func(c echo.Context) error { return s.sendScript(c, c.Param("infra_env_id"), format) }
}

func (s *Service) sendScript(c echo.Context, infraEnvID string, format discovery.ScriptFormat) error {
	network := s.network(c.Request())
	script, err := s.options.Source.Script(c.Request().Context(), discovery.ScriptRequest{
		InfraEnvID: infraEnvID, Format: format, Type: c.QueryParam("ipxe_script_type"), MAC: c.QueryParam("mac"),
		Network: network, URL: network.Boot + c.Request().URL.Path,
	})
	if err != nil {
		return told(err)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", script)
}

func (s *Service) health(c echo.Context) error {
	if err := s.options.Source.Ready(); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}
