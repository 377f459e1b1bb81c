package image

import (
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/architecture"
	"landfall/appliance/discovery"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Prefixes of the paths of an infra-env's images. The rest of a path is /{version}/{arch}/{file}.
const (
	byID     = "/byid/:infra_env_id"
	byAPIKey = "/byapikey/:token"
	byToken  = "/bytoken/:token"
)

// Operations returns the operations on images and boot files. They answer GET and HEAD.
//
//	/byid/{infra_env_id}/{version}/{arch}/{full|minimal}.iso[.sha256]
//	/byid/{infra_env_id}/{version}/{arch}/{kernel|initrd.img|rootfs.img|ins-file|initrd.addrsize}
//	/byapikey/{token}/…, /bytoken/{token}/…           the same, with a token
//	/images/{infra_env_id}?version=&arch=&type=        full-iso or minimal-iso
//	/images/{infra_env_id}/{pxe-initrd|s390x-initrd-addrsize}?version=&arch=
//	/boot-artifacts/{kernel|rootfs|ins-file}?version=&arch=
//	/i/{code}.iso[.sha256]                             the image, for virtual media
//	/i/{code}/{grub.cfg|config.iso}                    the GRUB menu and the config image
//	/i/{code}.ipxe, /ipxe/{infra_env_id}               an iPXE script
//	/grub/{infra_env_id}/grub.cfg                      a GRUB menu
//	/config/{infra_env_id}.iso                         an image that contains the config alone
//	/health, /live
//
// Machines send hundreds of requests a second to all of them but the scripts.
func (s *Service) Operations() []operation.Operation {
	var all []operation.Operation
	add := func(id, path, summary string, rule operation.Access, handler echo.HandlerFunc) {
		all = append(all, operation.Operation{ID: id, Method: http.MethodGet, Head: true, Path: path,
			Access: rule, Handler: handler, Quiet: true, FromCopy: true,
			Summary: summary, Status: http.StatusOK, Answer: operation.File{}, Errors: []int{404, 409, 503}})
	}
	// The rules of images, of URLs that contain a token or a code, and of files without secrets.
	image, token, open := operation.For(access.Operator).OrLinks(), operation.CheckedBy("the token in the URL"),
		operation.Public()
	for _, by := range []struct {
		id, path string
		rule     operation.Access
	}{{"ByID", byID, image}, {"ByAPIKey", byAPIKey, token}, {"ByToken", byToken, token}} {
		prefix := by.path + "/:version/:arch/"
		for _, file := range []struct {
			id, name string
			kind     discovery.Kind
		}{
			{"Full", "full.iso", discovery.Full}, {"Minimal", "minimal.iso", discovery.Minimal},
			{"Initrd", "initrd.img", discovery.Initrd},
			{"InitrdAddrSize", "initrd.addrsize", discovery.InitrdAddrSize},
		} {
			find := s.image(file.kind)
			add("download"+file.id+by.id, prefix+file.name, "Download "+file.name, by.rule, s.answer(find))
			add("digest"+file.id+by.id, prefix+file.name+".sha256", "Download the digest of "+file.name, by.rule,
				s.digest(find))
		}
		for _, file := range []struct {
			id, name string
			kind     discovery.Kind
		}{
			{"Kernel", "kernel", discovery.Kernel}, {"RootFS", "rootfs.img", discovery.RootFS},
			{"InsFile", "ins-file", discovery.InsFile},
		} {
			add("download"+file.id+by.id, prefix+file.name, "Download "+file.name, open,
				s.answer(s.artifact(file.kind)))
		}
	}
	const images = "/images/:infra_env_id"
	add("downloadImage", images, "Download an image of an infra-env", image, s.answer(s.imageByType))
	add("downloadImageInitrd", images+"/pxe-initrd", "Download the initrd of an infra-env", image,
		s.answer(s.image(discovery.Initrd)))
	add("downloadImageInitrdAddrSize", images+"/s390x-initrd-addrsize",
		"Download the address and size of the initrd of an infra-env", image,
		s.answer(s.image(discovery.InitrdAddrSize)))
	for _, kind := range []discovery.Kind{discovery.Kernel, discovery.RootFS, discovery.InsFile} {
		add("downloadArtifact-"+string(kind), "/boot-artifacts/"+string(kind),
			"Download the "+string(kind)+" of an OpenShift version", open, s.answer(s.artifact(kind)))
	}
	add("downloadShort", "/i/:file", "Download the image, its digest or the iPXE script of a short URL", token, s.short)
	add("downloadShortFile", "/i/:code/:file", "Download the GRUB menu or the config image of a short URL", token,
		s.shortFile)
	add("downloadConfigImage", "/config/:infra_env_id", "Download the config image of an infra-env", image,
		s.answer(s.config))
	add("getHealth", "/health", "Report whether images can be downloaded", open, s.health)
	add("getLive", "/live", "Report that the appliance runs", open,
		func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	return append(all, s.scriptOperations()...)
}

// scriptOperations returns the operations on the scripts of boot loaders.
func (s *Service) scriptOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "getIPXEScript", Method: http.MethodGet, Head: true, Path: "/ipxe/:infra_env_id",
			Access: operation.For(access.Operator).OrLinks(), Handler: s.script(discovery.IPXE), FromCopy: true,
			Summary: "Download the iPXE script of an infra-env",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{400, 404, 409, 503}},
		{ID: "getGRUBMenu", Method: http.MethodGet, Head: true, Path: "/grub/:infra_env_id/grub.cfg",
			Access: operation.For(access.Operator).OrLinks(), Handler: s.script(discovery.GRUB), FromCopy: true,
			Summary: "Download the GRUB menu of an infra-env",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{404, 409, 503}},
	}
}

// infraEnvID returns the ID of the infra-env in the path, either the ID itself or from a token.
func (s *Service) infraEnvID(c echo.Context) (string, error) {
	token := c.Param("token")
	switch {
	case token == "":
		return c.Param("infra_env_id"), nil
	case s.options.Tokens != nil:
		return s.options.Tokens.VerifyImage(token)
	}
	return infraEnvOf(token)
}

// checkToken returns an error if the path contains an invalid token of an infra-env. Each request
// is checked, so that downloads stop when the token is revoked. Kernels and root file systems
// contain no secrets, so that machines may read them with any token.
func (s *Service) checkToken(c echo.Context) error {
	if s.options.Tokens == nil || c.Param("token") == "" || isOpen(path.Base(c.Path())) {
		return nil
	}
	_, err := s.infraEnvID(c)
	return err
}

// isOpen reports whether a file depends only on the OpenShift version.
func isOpen(name string) bool { return name == "kernel" || name == "rootfs.img" || name == "ins-file" }

func (s *Service) image(kind discovery.Kind) find {
	return func(c echo.Context, network discovery.Network) (*discovery.Image, error) {
		id, err := s.infraEnvID(c)
		if err != nil {
			return nil, err
		}
		return s.options.Source.Image(c.Request().Context(), id, kind, network)
	}
}

func (s *Service) imageByType(c echo.Context, network discovery.Network) (*discovery.Image, error) {
	kind, known := map[string]discovery.Kind{"": discovery.Full, "full-iso": discovery.Full,
		"minimal-iso": discovery.Minimal}[c.QueryParam("type")]
	if !known {
		return nil, problem.BadRequest("type is %q; expected full-iso or minimal-iso", shorten(c.QueryParam("type")))
	}
	return s.image(kind)(c, network)
}

// artifact finds a boot artifact of a base ISO. The path or the query names the version and the
// architecture.
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
			arch = architecture.X86.API()
		}
		artifact, err := s.options.Source.BootFile(c.Request().Context(), version, arch, kind)
		if err != nil {
			return nil, err
		}
		if id, err := s.infraEnvID(c); err == nil && id != "" {
			return forInfraEnv(artifact, id), nil
		}
		return artifact, nil
	}
}

// forInfraEnv returns the artifact with the infra-env of the machine that reads it.
func forInfraEnv(i *discovery.Image, infraEnvID string) *discovery.Image {
	return &discovery.Image{Image: i.Image, InfraEnvID: infraEnvID, Kind: i.Kind, FileName: i.FileName,
		Modified: i.Modified,
		Digest:   i.Digest}
}

func (s *Service) config(c echo.Context, network discovery.Network) (*discovery.Image, error) {
	infraEnvID, ok := strings.CutSuffix(c.Param("infra_env_id"), ".iso")
	if !ok {
		return nil, problem.NotFound("%s is not an image; the name of an image ends in .iso", c.Request().URL.Path)
	}
	return s.options.Source.Image(c.Request().Context(), infraEnvID, discovery.Config, network)
}

// short serves a short URL: the image, its digest or the iPXE script, by the extension of the URL.
// The infra-env determines the kind of image. Each request checks the code, so that downloads stop
// when the code is revoked or expires.
func (s *Service) short(c echo.Context) error {
	text, ending, _ := strings.Cut(c.Param("file"), ".")
	if ending != "iso" && ending != "iso.sha256" && ending != "ipxe" {
		return problem.NotFound("%s is not an image; a short URL ends in .iso", c.Request().URL.Path)
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

// shortFile serves the files of a short URL whose names boot loaders and tools expect.
func (s *Service) shortFile(c echo.Context) error {
	name := c.Param("file")
	if name != "grub.cfg" && name != "config.iso" {
		return problem.NotFound("%s is not a file of a short URL; those are grub.cfg and config.iso",
			c.Request().URL.Path)
	}
	infraEnvID, err := s.codes.infraEnv(c.Request().Context(), c.Param("code"))
	if err != nil {
		return err
	}
	if name == "grub.cfg" {
		return s.sendScript(c, infraEnvID, discovery.GRUB)
	}
	return s.answer(func(c echo.Context, network discovery.Network) (*discovery.Image, error) {
		return s.options.Source.Image(c.Request().Context(), infraEnvID, discovery.Config, network)
	})(c)
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
		return asConflict(err)
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
