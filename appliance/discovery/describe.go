package discovery

import (
	"cmp"
	"context"
	"strings"
	"time"

	"landfall/appliance/engine/recipe"
)

// Description describes the images of an infra-env. The first six fields describe the image type of
// the infra-env.
type Description struct {
	URL       string `json:"url"`
	FileName  string `json:"file_name"`
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"` // hexadecimal; empty while it is being computed
	ETag      string `json:"etag"`   // in quotes, as in the HTTP header
	Type      string `json:"type"`   // full-iso or minimal-iso

	Revision       string          `json:"revision"` // digest of the recipe; it changes with the image
	Modified       time.Time       `json:"modified"`
	Full           KindDescription `json:"full"`
	Minimal        KindDescription `json:"minimal"`
	ShortURL       string          `json:"short_url"` // for virtual media; empty after its revocation or expiry
	ShortExpires   *time.Time      `json:"short_url_expires"`
	URLs           []NetworkURLs   `json:"urls"` // the preferred network first
	NetworkBoot    BootURLs        `json:"network_boot"`
	ConfigImageURL string          `json:"config_image_url"`
}

// KindDescription describes one kind of image, or contains the reason why the image cannot be
// built.
type KindDescription struct {
	URL       string `json:"url,omitempty"`
	SizeBytes int64  `json:"size_bytes,omitempty"`
	ETag      string `json:"etag,omitempty"`
	SHA256    string `json:"sha256"` // hexadecimal; empty while it is being computed
	Reason    string `json:"reason,omitempty"`
}

// NetworkURLs are the URLs of an image in one of the site's networks.
type NetworkURLs struct {
	URL     string `json:"url"` // of the appliance
	Full    string `json:"full"`
	Minimal string `json:"minimal"`
	Short   string `json:"short"`
}

// BootURLs contains the URLs for network boot of an infra-env's image in the preferred network, or
// the reason why network boot is impossible.
type BootURLs struct {
	IPXEURL         string `json:"ipxe_url,omitempty"`
	IPXEScript      string `json:"ipxe_script,omitempty"`
	KernelURL       string `json:"kernel_url,omitempty"`
	InitrdURL       string `json:"initrd_url,omitempty"`
	RootFSURL       string `json:"rootfs_url,omitempty"`
	KernelArguments string `json:"kernel_arguments,omitempty"`
	GRUBURL         string `json:"grub_url,omitempty"`
	HTTPBootURL     string `json:"http_boot_url,omitempty"`
	Reason          string `json:"reason,omitempty"`
}

// ShortURL is the URL of an infra-env's image for virtual media.
type ShortURL struct {
	URL     string     `json:"short_url"`
	Expires *time.Time `json:"short_url_expires"` // null means never
}

// Describe describes the images of an infra-env. Unknown digests are computed in the background.
func (i *Images) Describe(ctx context.Context, infraEnvID string) (*Description, error) {
	recipe, err := i.recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	preferred := i.networks[0]
	path, err := i.securedPath(recipe)
	if err != nil {
		return nil, err
	}
	own, err := i.Image(ctx, infraEnvID, "", preferred)
	if err != nil {
		return nil, err
	}
	full := i.describeKind(ctx, recipe, path, Full)
	minimal := i.describeKind(ctx, recipe, path, Minimal)
	description := &Description{
		URL: preferred.URL + path + string(own.Kind) + ".iso", FileName: own.FileName,
		SizeBytes: own.Size(), SHA256: own.Digest(true), ETag: own.ETag(), Type: string(recipe.Type),
		Revision: recipe.Digest, Modified: recipe.Modified, Full: full, Minimal: minimal,
		ConfigImageURL: preferred.URL + "/config/" + infraEnvID + ".iso",
	}
	code, expires, err := i.engine.CodeOfImage(infraEnvID)
	if err != nil {
		return nil, err
	}
	if path != imagePath(recipe) {
		description.ConfigImageURL = preferred.codeURL(code, "/config.iso")
	}
	short := shortURL(preferred, code, expires)
	description.ShortURL, description.ShortExpires = short.URL, short.Expires
	for _, network := range i.networks {
		urls := NetworkURLs{URL: network.URL, Short: network.ShortURL(code)}
		if full.URL != "" {
			urls.Full = network.URL + path + "full.iso"
		}
		if minimal.URL != "" {
			urls.Minimal = network.URL + path + "minimal.iso"
		}
		description.URLs = append(description.URLs, urls)
	}
	description.NetworkBoot = i.describeNetworkBoot(ctx, recipe, preferred, code)
	return description, nil
}

// WithoutURLs returns a copy without the URLs of the images and of network boot. These URLs contain
// tokens and codes, so that a person who knows one can download the image with its pull secret.
func (d *Description) WithoutURLs() *Description {
	const reason = "only operators and administrators may see the addresses of images"
	public := *d
	public.URL, public.URLs, public.ConfigImageURL = "", nil, ""
	public.ShortURL, public.ShortExpires = "", nil
	public.NetworkBoot = BootURLs{Reason: cmp.Or(d.NetworkBoot.Reason, reason)}
	for _, kind := range []*KindDescription{&public.Full, &public.Minimal} {
		kind.URL, kind.Reason = "", cmp.Or(kind.Reason, reason)
	}
	return &public
}

func (i *Images) describeKind(ctx context.Context, recipe *recipe.Recipe, path string, kind Kind) KindDescription {
	network := i.networks[0]
	image, err := i.Image(ctx, recipe.InfraEnvID, kind, network)
	if err != nil {
		return KindDescription{Reason: err.Error()}
	}
	return KindDescription{
		URL: network.URL + path + string(kind) + ".iso", SizeBytes: image.Size(), ETag: image.ETag(),
		SHA256: image.Digest(true),
	}
}

// describeNetworkBoot describes network boot. If machines are authenticated, its URLs contain the
// code of the short URL, because the path with the ID of the infra-env requires a person.
func (i *Images) describeNetworkBoot(ctx context.Context, recipe *recipe.Recipe, network Network,
	code string) BootURLs {
	script, err := i.Script(ctx, ScriptRequest{InfraEnvID: recipe.InfraEnvID, Format: IPXE, Type: scriptAlways,
		Network: network})
	if err != nil {
		return BootURLs{Reason: err.Error()}
	}
	boot, err := i.networkBoot(recipe, network)
	if err != nil {
		return BootURLs{Reason: err.Error()}
	}
	arguments, err := boot.CommandLine()
	if err != nil {
		return BootURLs{Reason: err.Error()}
	}
	described := BootURLs{
		IPXEURL: network.Boot + "/ipxe/" + recipe.InfraEnvID, IPXEScript: string(script), KernelURL: boot.KernelURL,
		InitrdURL: boot.InitrdURL, RootFSURL: boot.RootfsURL, KernelArguments: arguments,
		GRUBURL:     network.Boot + "/grub/" + recipe.InfraEnvID + "/grub.cfg",
		HTTPBootURL: network.Boot + imagePath(recipe) + string(kindOf(recipe.Type)) + ".iso",
	}
	if path, err := i.securedPath(recipe); err != nil || path == imagePath(recipe) {
		return described
	}
	if code == "" {
		return BootURLs{Reason: "The short URL was revoked or has expired, which machines need for network boot; " +
			"renew it."}
	}
	described.IPXEURL, described.GRUBURL = network.codeURL(code, ".ipxe"), network.codeURL(code, "/grub.cfg")
	described.HTTPBootURL = network.ShortURL(code)
	return described
}

// RenewShortURL replaces the short URL of an infra-env. The new URL is valid for the given time, or
// without a limit for 0.
func (i *Images) RenewShortURL(ctx context.Context, infraEnvID string, validFor time.Duration) (*ShortURL, error) {
	code, expires, err := i.engine.RenewImageCode(ctx, infraEnvID, validFor)
	if err != nil {
		return nil, err
	}
	short := shortURL(i.networks[0], code, expires)
	return &short, nil
}

// RevokeShortURL makes the short URL of an infra-env invalid.
func (i *Images) RevokeShortURL(ctx context.Context, infraEnvID string) error {
	return i.engine.RevokeImageCode(ctx, infraEnvID)
}

func shortURL(network Network, code string, expires time.Time) ShortURL {
	short := ShortURL{URL: network.ShortURL(code)}
	if code != "" && !expires.IsZero() {
		short.Expires = &expires
	}
	return short
}

// ShortURL returns the short URL of an image code in the network, or "" without a code.
func (n Network) ShortURL(code string) string {
	return n.codeURL(code, ".iso")
}

// codeURL returns a URL with an image code, or "" without a code.
func (n Network) codeURL(code, ending string) string {
	if code == "" {
		return ""
	}
	return n.Boot + "/i/" + strings.ToLower(code) + ending
}
