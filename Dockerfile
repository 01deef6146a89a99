# The hub of a team, docs/team.md: a static program, and the certificates by which it knows Google.
# The tag is for people: the digest says which image it is. A newer one: docker buildx imagetools inspect golang:1.26
FROM golang:1.26@sha256:3aff6657219a4d9c14e27fb1d8976c49c29fddb70ba835014f477e1c70636647 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags urfave_cli_no_docs -ldflags '-s -w' -o /gchat-hooks .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /gchat-hooks /gchat-hooks
USER 65534:65534
ENTRYPOINT ["/gchat-hooks", "hub"]
