package isogen

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"landfall/isogen/iso9660"
)

// NetworkBootError reports that a base lacks a file for network boot.
type NetworkBootError struct {
	Path string // the path of the base
	File string // path of the missing file in the ISO
}

func (e *NetworkBootError) Error() string {
	return fmt.Sprintf("machines cannot boot from the base ISO %s over the network: the ISO does not contain %s: use "+
		"the "+
		"live ISO of a CoreOS release, as it was published", e.Path, e.File)
}

// Kernel returns the kernel of the live system as an image.
func (b *Base) Kernel() (*Image, error) {
	// Until about OpenShift 4.18, s390x has the kernel under the other name. Some images have both
	// names; the first file is then a placeholder.
	names := []string{"images/pxeboot/vmlinuz", "images/pxeboot/kernel.img"}
	if b.architecture == S390X {
		names[0], names[1] = names[1], names[0]
	}
	return b.fileImage("kernel", names...)
}

// Rootfs returns the root file system of the live system as an image.
func (b *Base) Rootfs() (*Image, error) { return b.fileImage("rootfs", rootfsPath) }

const initrdPath = "images/pxeboot/initrd.img"

// Initrd returns the initial RAM file system of the live system, followed by the archive of the
// payload. The kernel unpacks both into the same root. The only limit is MaxPayload.
func (b *Base) Initrd(p Payload) (*Image, error) {
	e, err := b.networkFile(initrdPath)
	if err != nil {
		return nil, err
	}
	packed, err := p.pack()
	if err != nil {
		return nil, err
	}
	// An archive starts at a multiple of four bytes (Linux
	// Documentation/driver-api/early-userspace/buffer-format.rst).
	start := (e.Size + 3) / 4 * 4
	layout := []extent{{length: e.Size, base: true, from: e.Offset}}
	if start > e.Size {
		layout = append(layout, extent{start: e.Size, length: start - e.Size})
	}
	layout = append(layout, patch(start, packed))
	return newImage(b, layout, []Segment{{"initrd", 0, start}, {"config", start, start + int64(len(packed))}}), nil
}

// InsFile returns generic.ins. It makes s390x load kernel, initrd and parameters from an FTP server
// or the service console.
func (b *Base) InsFile() (*Image, error) { return b.fileImage("boot loader", "generic.ins") }

// InitrdAddrSize returns the content of images/initrd.addrsize for the Initrd of the payload (s390x
// only): the load address and the length of the initrd, two 64-bit big-endian numbers.
func (b *Base) InitrdAddrSize(p Payload) (*Image, error) {
	e, err := b.networkFile("images/initrd.addrsize")
	if err != nil {
		return nil, err
	}
	initrd, err := b.Initrd(p)
	if err != nil {
		return nil, err
	}
	address := make([]byte, 8, 16)
	if e.Size < int64(len(address)) {
		return nil, &NetworkBootError{b.path, "images/initrd.addrsize of 16 bytes"}
	}
	if n, err := b.file.ReadAt(address, e.Offset); n < len(address) {
		return nil, b.readError(err)
	}
	data := binary.BigEndian.AppendUint64(address, uint64(initrd.Size()))
	return newImage(b, []extent{patch(0, data)}, []Segment{{"boot loader", 0, int64(len(data))}}), nil
}

// networkFile returns the first of the files that exists and is not empty.
func (b *Base) networkFile(paths ...string) (*iso9660.Entry, error) {
	for _, path := range paths {
		if e := b.volume.Find(path); e != nil && !e.Dir && e.Size > 0 {
			return e, nil
		}
	}
	return nil, &NetworkBootError{b.path, paths[0]}
}

// fileImage returns a file of the base as an image.
func (b *Base) fileImage(segment string, paths ...string) (*Image, error) {
	e, err := b.networkFile(paths...)
	if err != nil {
		return nil, err
	}
	return newImage(b, []extent{{length: e.Size, base: true, from: e.Offset}}, []Segment{{segment, 0, e.Size}}), nil
}

// networkArguments are the kernel arguments of the Assisted Installer for network boot
// (openshift/assisted-service, iPXE script). The last argument is for the installed system.
const networkArguments = "random.trust_cpu=on rd.luks.options=discard ignition.firstboot " +
	"ignition.platform.id=metal console=tty1 console=ttyS1,115200n8 " +
	`coreos.inst.persistent-kargs="console=tty1 console=ttyS1,115200n8"`

// NetworkBoot contains the URLs from which a machine loads its live system.
type NetworkBoot struct {
	KernelURL, InitrdURL, RootfsURL string
	Arguments                       []KernelArgument // edits of the command line, as for Full
}

// CommandLine returns the command line of the kernel.
func (n NetworkBoot) CommandLine() (string, error) {
	for _, u := range []string{n.KernelURL, n.InitrdURL, n.RootfsURL} {
		if err := checkScriptURL(u); err != nil {
			return "", err
		}
	}
	for _, a := range n.Arguments {
		if err := a.check(); err != nil {
			return "", err
		}
	}
	return edit(rootfsArgument+n.RootfsURL+" "+networkArguments, n.Arguments), nil
}

// checkScriptURL returns an error for a URL with characters that have a meaning in a boot script.
func checkScriptURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || strings.ContainsAny(s, " \t\r\n\"'\\$`{}") {
		return fmt.Errorf("%q cannot be written into a boot script: give an absolute URL without blanks, quotes and "+
			"braces", s)
	}
	return nil
}

// IPXEScript returns the iPXE script that boots the live system.
func IPXEScript(n NetworkBoot) (string, error) {
	line, err := n.CommandLine()
	if err != nil {
		return "", err
	}
	if strings.Contains(line, "${") {
		return "",
			&KernelArgumentError{Problem: "the kernel arguments contain ${, which has a special meaning in iPXE: " +
				"leave it out"}
	}
	for word := range strings.FieldsSeq(line) {
		if word == ";" || word == "&&" || word == "||" || word[0] == '#' {
			return "", &KernelArgumentError{Problem: fmt.Sprintf("the kernel arguments contain the word %q, which has "+
				"a special meaning in iPXE, also within quotes: leave it out", word)}
		}
	}
	// A kernel that is an EFI program finds its initrd with the argument initrd=.
	return fmt.Sprintf("#!ipxe\ninitrd --name initrd %s\nkernel %s initrd=initrd %s\nboot\n", n.InitrdURL, n.KernelURL,
		line), nil
}

// IPXEChain returns the iPXE script that requests the same URL again, with the MAC address of the
// machine. The server can then tell an installed machine to boot from its disk (ipxe_script_type
// boot-order-control).
func IPXEChain(scriptURL string) (string, error) {
	if err := checkScriptURL(scriptURL); err != nil {
		return "", err
	}
	separator := "?"
	if strings.Contains(scriptURL, "?") {
		separator = "&"
	}
	return fmt.Sprintf("#!ipxe\nchain %s%smac=${net0/mac}\n", scriptURL, separator), nil
}

// GRUBMenu returns the menu for a GRUB that was started over the network. The menu boots the live
// system. GRUB supports only http URLs. Ports other than 80 need GRUB 2.12 or the GRUB of a Red Hat
// distribution.
func GRUBMenu(title string, n NetworkBoot) (string, error) {
	line, err := n.CommandLine()
	if err != nil {
		return "", err
	}
	for _, a := range n.Arguments {
		if err := a.checkSyntax(); err != nil && a.Operation != Delete {
			return "", err
		}
	}
	kernel, err := grubPath(n.KernelURL)
	if err != nil {
		return "", err
	}
	initrd, err := grubPath(n.InitrdURL)
	if err != nil {
		return "", err
	}
	line = strings.Replace(line, rootfsArgument+n.RootfsURL, rootfsArgument+"'"+n.RootfsURL+"'", 1)
	title = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`'"\$`, r) {
			return '_'
		}
		return r
	}, title)
	return fmt.Sprintf("set default=0\nset timeout=5\n\nmenuentry '%s' {\n\tlinux %s %s\n\tinitrd %s\n}\n", title,
		kernel, line, initrd), nil
}

// grubPath converts a URL to the form of GRUB: (http,host)/path.
func grubPath(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" {
		return "", fmt.Errorf("GRUB cannot fetch %q: give an http URL", s)
	}
	return fmt.Sprintf("'(http,%s)%s'", u.Host, u.RequestURI()), nil
}
