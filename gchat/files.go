package gchat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"
)

// File is what is attached to a message.
type File struct {
	Name string // the sender's, which may be anything
	// Resource is the name of its content in Chat, for OpenFile; "" where OpenFile cannot
	// fetch it.
	Resource  string
	IsOnDrive bool // it is a file in Google Drive
}

func filesOf(m *chat.Message) (files []File) {
	for _, attachment := range m.Attachment {
		if attachment == nil {
			continue
		}
		file := File{Name: attachment.ContentName}
		file.IsOnDrive = attachment.Source == "DRIVE_FILE" || attachment.DriveDataRef != nil
		if !file.IsOnDrive && attachment.AttachmentDataRef != nil {
			file.Resource = attachment.AttachmentDataRef.ResourceName
		}
		files = append(files, file)
	}
	for range m.AttachedGifs { // they are on another server, and the API has only a link
		files = append(files, File{Name: "GIF"})
	}
	return files
}

// maxResourceName is how long the name of a file's content may be, in bytes.
const maxResourceName = 2000

// MaxFileBytes is how large an attached file may be. A hub relays one byte more of it.
const MaxFileBytes = 10 << 20

// HubHasNoSuchCall is what a hub answers to a call that it does not have, as a 404.
const HubHasNoSuchCall = "a hub has no such call"

// ErrHubWithoutFiles means that the hub has an earlier version, which relays no files.
var ErrHubWithoutFiles = errors.New("the hub is too old to relay files")

// OpenFile opens the content of a file that is attached to a message (media.download).
// The caller limits how much it reads, and for how long. Google accepts a person's login
// with chat.messages.readonly, or an app with chat.bot. A hub wants to know the message:
// to Google all its machines are the same app.
func (a *API) OpenFile(ctx context.Context, message, resource string) (io.ReadCloser, error) {
	isPlain := resource != "" && len(resource) <= maxResourceName &&
		!strings.ContainsAny(resource, "?#%\\\r\n") && !strings.Contains(resource, "..")
	if !isPlain {
		return nil, fmt.Errorf("%w: a file has no usable name", ErrBadResponse)
	}
	var options []googleapi.CallOption
	if a.Hub != nil {
		options = append(options, googleapi.QueryParameter("message", message))
	}
	response, err := a.chat.Media.Download(resource).Context(ctx).Download(options...)
	if err == nil {
		return response.Body, nil
	}
	err = a.callError("fetch file", a.Space, err)
	if asAPIError(err).Message == HubHasNoSuchCall {
		err = fmt.Errorf("%w: %w", ErrHubWithoutFiles, err)
	}
	return nil, err
}

// OpenFile opens the content of an attached file with the credentials that list the
// space. A service account needs the scope chat.bot for it, and not the one for lists.
func (w ListedWebhook) OpenFile(
	ctx context.Context,
	message, resource string,
) (io.ReadCloser, error) {
	reader, err := newAPI(ctx, w.Endpoint, w.CredentialsFile, chat.ChatBotScope)
	if err != nil {
		return nil, err
	}
	return reader.OpenFile(ctx, message, resource)
}

// uploadTimeout is how long the upload of a file may take.
const uploadTimeout = time.Minute

// UploadFile uploads a file to the embedded space (media.upload), and returns the token by
// which a post attaches it. The error is errors.ErrUnsupported for Google Chat, where
// only a person's login may upload files.
func (a *API) UploadFile(ctx context.Context, name string, content []byte) (string, error) {
	if a.baseURL == nil || a.Space != embeddedSpaceName || a.Hub != nil {
		return "", errors.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	var body bytes.Buffer // no write to it fails
	parts := multipart.NewWriter(&body)
	header := textproto.MIMEHeader{"Content-Type": {"application/json; charset=UTF-8"}}
	metadata, _ := parts.CreatePart(header)
	_ = json.NewEncoder(metadata).Encode(&chat.UploadAttachmentRequest{Filename: name})
	header = textproto.MIMEHeader{"Content-Type": {"application/octet-stream"}}
	media, _ := parts.CreatePart(header)
	_, _ = media.Write(content)
	_ = parts.Close()
	// The library's own upload leaves out the token in the endpoint's path.
	address := strings.TrimSuffix(a.baseURL.String(), "/") + "/upload/v1/" + a.Space +
		"/attachments:upload?uploadType=multipart"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, &body)
	if err != nil {
		return "", fmt.Errorf("upload file: %w", err)
	}
	request.Header.Set("Content-Type", "multipart/related; boundary="+parts.Boundary())
	response, err := noRedirectClient.Do(request)
	if err != nil {
		return "", a.callError("upload file", a.Space, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return "", a.callError("upload file", a.Space, err)
	}
	if response.StatusCode != http.StatusOK {
		refusal := readAPIError(response.StatusCode, response.Header, answer)
		return "", fmt.Errorf("upload file: %w", refusal)
	}
	var uploaded chat.UploadAttachmentResponse
	_ = json.Unmarshal(answer, &uploaded)
	token := cmp.Or(uploaded.AttachmentDataRef, &chat.AttachmentDataRef{}).AttachmentUploadToken
	if token == "" {
		return "", fmt.Errorf("upload file: %w", ErrBadResponse)
	}
	return token, nil
}
