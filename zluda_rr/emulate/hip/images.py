"""stub"""
def image_of_request(data: bytes) -> bytes:
    raise NotImplementedError
