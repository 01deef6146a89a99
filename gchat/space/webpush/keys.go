package webpush

import (
	"crypto/ecdh"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/SherClockHolmes/webpush-go"
	"github.com/google/renameio/v2"
)

// Keys identify this space to push services (VAPID). A subscription is bound to them: a
// browser that subscribed with other keys has to subscribe again.
type Keys struct {
	Public  string `json:"public"`  // base64url, as pushManager.subscribe takes it
	Private string `json:"private"` // a secret: base64url of the number
}

// LoadKeys returns the keys in a file, and makes them if there is no file.
func LoadKeys(path string) (keys Keys, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKeys(path)
	}
	if err != nil {
		return keys, err
	}
	if json.Unmarshal(b, &keys) != nil || !keys.areValid() {
		return Keys{}, fmt.Errorf("%s is damaged", path)
	}
	return keys, nil
}

func makeKeys(path string) (keys Keys, err error) {
	keys.Private, keys.Public, err = webpush.GenerateVAPIDKeys()
	if err != nil {
		return Keys{}, err
	}
	b, _ := json.MarshalIndent(keys, "", "  ") // texts always encode
	err = renameio.WriteFile(path, append(b, '\n'), 0o600)
	if err != nil {
		return Keys{}, err
	}
	return keys, nil
}

// areValid reports whether the two keys belong together.
func (k Keys) areValid() bool {
	number, err := decodeKey(k.Private)
	if err != nil {
		return false
	}
	private, err := ecdh.P256().NewPrivateKey(number)
	if err != nil {
		return false
	}
	public, err := decodeKey(k.Public)
	return err == nil && string(public) == string(private.PublicKey().Bytes())
}
