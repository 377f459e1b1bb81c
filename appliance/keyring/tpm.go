package keyring

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"

	"landfall/store/seal"
)

// DefaultTPMDevice is the TPM behind Linux's resource manager, which several programs can use at
// the same time.
const DefaultTPMDevice = "/dev/tpmrm0"

// tpmMethod is the method TPM. The TPM derives a primary key from the seed of its owner hierarchy
// and seals a random key-encryption key to it, without a password and without PCRs: updates of the
// firmware and of the system do not matter. Clearing the TPM replaces the seed.
type tpmMethod struct{ device string }

// tpmParameters is the key-encryption key, sealed by a TPM.
type tpmParameters struct {
	Primary []byte `json:"primary"` // name of the primary key: the digest of its public part
	Public  []byte `json:"public"`  // TPMT_PUBLIC
	Private []byte `json:"private"` // TPM2B_PRIVATE without its size
}

func (*tpmMethod) name() Method { return TPM }

func (t *tpmMethod) create() ([]byte, json.RawMessage, error) {
	key := seal.NewKey(1).Secret
	var sealed tpmParameters
	err := t.use(func(tpm *primary) (err error) {
		if sealed, err = tpm.seal(key); err != nil {
			return err
		}
		// The previous method deletes its key, so this one must be certain to open data.key.
		again, err := tpm.unseal(sealed)
		if err == nil && !bytes.Equal(again, key) {
			err = errors.New("it unsealed other data than it had sealed")
		}
		return err
	})
	if err != nil {
		return nil, nil, t.explain(err)
	}
	parameters, err := json.Marshal(sealed)
	return key, parameters, err
}

func (t *tpmMethod) open(parameters json.RawMessage) ([][]byte, error) {
	var sealed tpmParameters
	if err := json.Unmarshal(parameters, &sealed); err != nil || len(sealed.Primary) == 0 {
		return nil, damagedTPMParameters(err)
	}
	var key []byte
	err := t.use(func(tpm *primary) (err error) {
		if !bytes.Equal(tpm.key.Name.Buffer, sealed.Primary) {
			return t.wrong()
		}
		key, err = tpm.unseal(sealed)
		return err
	})
	if err != nil {
		return nil, t.explain(err)
	}
	return [][]byte{key}, nil
}

func (t *tpmMethod) wrong() *Error {
	return newError(ErrWrong, "The TPM at %s did not seal the data key, or was cleared since; use the machine whose "+
		"TPM sealed it, or restore a copy of %s that is sealed in another way. Nothing was changed.", t.device,
		FileName)
}

func damagedTPMParameters(err error) *Error {
	return newError(err, "The parameters of the TPM in %s are damaged; restore the file from a backup.", FileName)
}

func (*tpmMethod) keepOnly([]byte) error { return nil }

func (*tpmMethod) remove() error { return nil }

// explain returns the sentence for an error of the TPM or its device.
func (t *tpmMethod) explain(err error) error {
	var known *Error
	is := func(causes ...error) bool {
		for _, cause := range causes {
			if errors.Is(err, cause) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, &known):
		return known
	case is(fs.ErrNotExist, syscall.ENODEV, syscall.ENXIO, syscall.ECONNREFUSED):
		return newError(err, "The data key needs a TPM 2.0 at %s, but there is none; enable it in the firmware, or "+
			"name its device with seal.tpm_device or LANDFALL_SEAL_TPM_DEVICE. Nothing was changed.", t.device)
	case is(linuxtpm.ErrFileIsNotDevice):
		return newError(err, "The file %s is not a TPM; name the device of a TPM 2.0 with seal.tpm_device or "+
			"LANDFALL_SEAL_TPM_DEVICE. Nothing was changed.", t.device)
	case is(fs.ErrPermission):
		return newError(err, "Landfall may not open the TPM at %s; add its user to the group of the device, often "+
			"tss. Nothing was changed.", t.device)
	case is(syscall.EBUSY, tpm2.TPMRCRetry, tpm2.TPMRCYielded, tpm2.TPMRCTesting, tpm2.TPMRCMemory,
		tpm2.TPMRCObjectMemory, tpm2.TPMRCSessionMemory, tpm2.TPMRCObjectHandles, tpm2.TPMRCSessionHandles):
		return newError(err, "Other programs use the TPM at %s; stop them and start again. Nothing was changed.",
			t.device)
	case is(tpm2.TPMRCBadAuth, tpm2.TPMRCAuthFail):
		return newError(err, "The owner hierarchy of the TPM at %s has a password, which Landfall does not know; "+
			"remove the password, or seal the data key in another way. Nothing was changed.", t.device)
	}
	return newError(err, "The TPM at %s failed (%v); check it, or seal the data key in another way. Nothing was "+
		"changed.", t.device, err)
}

// use opens the TPM, creates its primary key, and calls f.
func (t *tpmMethod) use(f func(*primary) error) (err error) {
	info, err := os.Stat(t.device)
	if err != nil {
		return err
	}
	open := linuxtpm.Open
	if info.Mode()&fs.ModeSocket != 0 {
		open = linuxudstpm.Open // a TPM emulator
	}
	device, err := open(t.device)
	if err != nil {
		return err
	}
	tpm := checkedTPM{device}
	defer func() { err = errors.Join(err, tpm.Close()) }()
	key, err := tpm2.CreatePrimary{
		PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(tpm2.ECCSRKTemplate),
	}.Execute(tpm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flush(tpm, key.ObjectHandle)) }()
	public, err := key.OutPublic.Contents()
	if err != nil {
		return err
	}
	// The name is computed here, so a device between the processor and the TPM cannot pass its own
	// public key for the TPM's.
	name, err := tpm2.ObjectName(public)
	if err != nil {
		return err
	}
	return f(&primary{tpm, tpm2.NamedHandle{Handle: key.ObjectHandle, Name: *name}, *public})
}

func flush(tpm transport.TPM, handle tpm2.TPMHandle) error {
	_, err := tpm2.FlushContext{FlushHandle: handle}.Execute(tpm)
	return err
}

// checkedTPM is a TPM whose lack of an answer is an error. While a TPM asks for it, the transport
// repeats a command for two seconds. Then it returns neither an answer nor an error.
type checkedTPM struct{ transport.TPMCloser }

// Send implements transport.TPM.
func (p checkedTPM) Send(command []byte) ([]byte, error) {
	answer, err := p.TPMCloser.Send(command)
	if err == nil && len(answer) == 0 {
		err = tpm2.TPMRCRetry
	}
	return answer, err
}

// primary is the primary key of an open TPM.
type primary struct {
	tpm    transport.TPM
	key    tpm2.NamedHandle
	public tpm2.TPMTPublic
}

// authorized authorizes a command that uses an object. The key of the session is encrypted with the
// primary key, so a listener on the TPM's bus does not learn what the session encrypts.
func (p *primary) authorized(object tpm2.NamedHandle, encryption tpm2.AuthOption) tpm2.AuthHandle {
	return tpm2.AuthHandle{Handle: object.Handle, Name: object.Name,
		Auth: tpm2.HMAC(tpm2.TPMAlgSHA256, 16, tpm2.Salted(p.key.Handle, p.public), encryption)}
}

func (p *primary) seal(key []byte) (tpmParameters, error) {
	sealed, err := tpm2.Create{
		ParentHandle: p.authorized(p.key, tpm2.AESEncryption(128, tpm2.EncryptIn)),
		InSensitive: tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{
			Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: key}),
		}},
		InPublic: tpm2.New2B(tpm2.TPMTPublic{
			Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256,
			ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true, NoDA: true},
		}),
	}.Execute(p.tpm)
	if err != nil {
		return tpmParameters{}, err
	}
	return tpmParameters{p.key.Name.Buffer, sealed.OutPublic.Bytes(), sealed.OutPrivate.Buffer}, nil
}

func (p *primary) unseal(sealed tpmParameters) (key []byte, err error) {
	object, err := tpm2.Load{
		ParentHandle: p.authorized(p.key, tpm2.AESEncryption(128, tpm2.EncryptIn)),
		InPrivate:    tpm2.TPM2BPrivate{Buffer: sealed.Private},
		InPublic:     tpm2.BytesAs2B[tpm2.TPMTPublic](sealed.Public),
	}.Execute(p.tpm)
	var rejected tpm2.TPMFmt1Error
	if errors.As(err, &rejected) {
		return nil, damagedTPMParameters(err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, flush(p.tpm, object.ObjectHandle)) }()
	opened, err := tpm2.Unseal{
		ItemHandle: p.authorized(tpm2.NamedHandle{Handle: object.ObjectHandle, Name: object.Name},
			tpm2.AESEncryption(128, tpm2.EncryptOut)),
	}.Execute(p.tpm)
	if err != nil {
		return nil, err
	}
	return opened.OutData.Buffer, nil
}
