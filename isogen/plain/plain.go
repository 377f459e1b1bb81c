// Package plain generates discovery images with a simple method: it reads a whole ISO into memory
// and overwrites bytes at positions that it finds itself. It shares no code with package isogen.
// Tests compare its images with the images of isogen and of the appliance.
package plain

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const sector = 2048

// ISO contains the bytes of a live ISO.
type ISO []byte

// File is a file to embed beside the config.
type File struct {
	Path string
	Mode int // permissions
	Data []byte
}

// Build returns a published ISO with an embedded Ignition config, files and a command line. An
// empty command line leaves the kernel arguments unchanged.
func Build(published []byte, config []byte, files []File, line string) ([]byte, error) {
	packed, err := Pack(config, files)
	if err != nil {
		return nil, err
	}
	b, err := ISO(bytes.Clone(published)).embed(packed)
	if err != nil || line == "" {
		return b, err
	}
	return b, b.arguments(line)
}

func (b ISO) number(at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }

func (b ISO) put(at, v int) {
	binary.LittleEndian.PutUint32(b[at:], uint32(v))
	binary.BigEndian.PutUint32(b[at+4:], uint32(v))
}

// record returns the offset of the directory record of a file, or -1. It searches the tree of the
// volume descriptor in the given sector. The names are those of the tree, without versions.
func (b ISO) record(descriptor int, names ...string) int {
	at := descriptor*sector + 156
	for _, name := range names {
		dir, size := b.number(at+2)*sector, b.number(at+10)
		at = -1
		for i := dir; i < dir+size && at < 0; {
			if b[i] == 0 {
				i = (i/sector + 1) * sector
				continue
			}
			id := strings.ReplaceAll(string(b[i+33:i+33+int(b[i+32])]), "\x00", "")
			if id, _, _ = strings.Cut(id, ";"); strings.EqualFold(id, name) {
				at = i
			}
			i += int(b[i])
		}
		if at < 0 {
			return -1
		}
	}
	return at
}

// File returns the position of a file with a plain name in the primary tree. at is -1 if the file
// does not exist.
func (b ISO) File(name string) (at, size int) {
	name = strings.NewReplacer(".json", ".JSO").Replace(name)
	r := b.record(16, strings.Split(name, "/")...)
	if r < 0 {
		return -1, 0
	}
	return b.number(r+2) * sector, b.number(r + 10)
}

// newc writes a member of a newc cpio archive.
func newc(w *bytes.Buffer, inode int, name string, mode, links int, data []byte) {
	fmt.Fprintf(w, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	for w.Len()%4 != 0 {
		w.WriteByte(0)
	}
	w.Write(data)
	for w.Len()%4 != 0 {
		w.WriteByte(0)
	}
}

// Pack returns the compressed archive to embed.
func Pack(config []byte, files []File) ([]byte, error) {
	var archive, out bytes.Buffer
	members := 0
	add := func(name string, mode, links int, data []byte) {
		members++
		newc(&archive, members, name, mode, links, data)
	}
	add("config.ign", 0o100600, 1, config)
	byPath := map[string]File{}
	for _, f := range files {
		byPath[f.Path] = f
	}
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(byPath)) {
		var dirs []string
		for dir := path.Dir(name); !made[dir]; dir = path.Dir(dir) {
			made[dir] = true
			dirs = append([]string{dir}, dirs...)
		}
		for _, dir := range dirs {
			add(dir, 0o040755, 2, nil)
		}
		add(name, 0o100000|byPath[name].Mode, 1, byPath[name].Data)
	}
	newc(&archive, 0, "TRAILER!!!", 0, 1, nil)
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	z.Name = "landfall"
	if _, err := z.Write(archive.Bytes()); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// embed writes the archive to the embed area, or to the end of the ISO.
func (b ISO) embed(data []byte) (ISO, error) {
	name := "images/ignition.img"
	info := struct{ Offset, Length int }{}
	if at, size := b.File("coreos/igninfo.json"); at > 0 {
		var described struct {
			File           string
			Offset, Length int
		}
		if err := json.Unmarshal(b[at:at+size], &described); err != nil {
			return nil, err
		}
		name, info.Offset, info.Length = described.File, described.Offset, described.Length
	}
	at, size := b.File(name)
	if info.Length > 0 {
		size = info.Length
	}
	clear(b[at+info.Offset : at+info.Offset+size])
	if len(data) <= size {
		copy(b[at+info.Offset:], data)
		return b, nil
	}
	sectors := (len(data) + sector - 1) / sector
	for len(b)%sector != 0 {
		b = append(b, 0)
	}
	start := len(b) / sector
	b = append(append(b, data...), make([]byte, sectors*sector-len(data))...)
	for descriptor := 16; b[descriptor*sector] != 255; descriptor++ {
		if kind := b[descriptor*sector]; kind != 1 && kind != 2 {
			continue
		}
		b.put(descriptor*sector+80, start+sectors)
		r := b.record(descriptor, strings.Split(name, "/")...)
		b.put(r+2, start)
		b.put(r+10, sectors*sector)
	}
	if string(b[32744:32752]) == "coreiso+" {
		binary.LittleEndian.PutUint64(b[32752:], uint64(start)*sector)
		binary.LittleEndian.PutUint64(b[32760:], uint64(sectors)*sector)
	}
	return b, nil
}

// arguments writes a command line to every area.
func (b ISO) arguments(line string) error {
	fill := func(at, size int, end, pad string) {
		copy(b[at:at+size], line+end+strings.Repeat(pad, size))
	}
	if at, size := b.File("coreos/kargs.json"); at > 0 {
		var kargs struct {
			Size  int
			Files []struct {
				Path, End, Pad string
				Offset         int
			}
		}
		if err := json.Unmarshal(b[at:at+size], &kargs); err != nil {
			return err
		}
		for _, f := range kargs.Files {
			if f.End == "" {
				f.End, f.Pad = "\n", "#"
			}
			file, _ := b.File(f.Path)
			fill(file+f.Offset, kargs.Size, f.End, f.Pad)
		}
	} else if string(b[32672:32680]) == "coreKarg" {
		for at := 32696; at < 32744 && binary.LittleEndian.Uint64(b[at:]) != 0; at += 8 {
			fill(int(binary.LittleEndian.Uint64(b[at:])), b.number(32680), "\n", "#")
		}
	}
	return nil
}
